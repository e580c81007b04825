// The memory of one rank over time: areas by category on top of each other, and a line at the capacity, if that is
// near enough for the areas to be seen.

const CHART_HEIGHT = 230;

/** The bytes that the lane's rank holds at its peak. */
const peakOf = (lane) => lane.rank.peak.reduce((a, b) => a + b, 0);

class MemoryChart {
  constructor(parent, trace, view, palette) {
    Object.assign(this, { trace, view, palette, lane: null });
    const box = document.createElement("div");
    box.className = "chart";
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    box.append(this.canvas);
    parent.append(box);
  }

  /** The trace's capacity if it fits on one axis with what is held; null if it is far above, or unknown. */
  capacityInSight(lanes) {
    const { capacity, far_above: farAbove } = this.trace.data;
    return capacity !== null && capacity <= farAbove * Math.max(...lanes.map(peakOf)) ? capacity : null;
  }

  /** Shows a lane on an axis up to `most` bytes; a capacity above that is stated in words. */
  choose(lane, most) {
    this.lane = lane;
    this.most = most;
    const { capacity } = this.trace.data;
    this.capacity = capacity !== null && capacity <= most ? capacity : null;
    this.words = lane ? formatBytes(peakOf(lane)) + (capacity !== null && this.capacity === null ? ` of ${formatBytes(capacity)}` : "") : "";
    this.canvas.setAttribute("aria-label", lane
      ? `Memory of ${lane.rank.title} over time${this.trace.letter ? ` in trace ${this.trace.letter}` : ""}: at most ${this.words}. The table below has the numbers.`
      : "This trace has no such stage.");
  }

  /** The row number for each pixel: of the fullest state in it, or of the one that continues. */
  statesOf(memory, columns) {
    const states = new Int32Array(columns);
    const { start, span } = this.view;
    let row = Math.max(0, firstAbove(memory.time, start) - 1);
    for (let x = 0; x < columns; x++) {
      const until = start + ((x + 1) / columns) * span;
      let best = row;
      while (row + 1 < memory.time.length && memory.time[row + 1] < until) {
        row++;
        if (memory.sum[row] > memory.sum[best]) best = row;
      }
      states[x] = best;
    }
    return states;
  }

  draw() {
    const { context, width, height } = fitCanvas(this.canvas, CHART_HEIGHT);
    const { palette, lane, view } = this;
    context.fillStyle = palette.colour("panel");
    context.fillRect(0, 0, width, height);
    context.font = `12px ${palette.font}`;
    context.textBaseline = "middle";
    this.width = width;
    if (!lane || lane.rank.states === 0) {
      context.fillStyle = palette.colour("muted");
      context.fillText("This trace has no memory of that stage.", GUTTER, height / 2);
      return;
    }
    const top = 28, bottom = height - 26, plot = plotWidth(width);
    const most = this.most * 1.04 || 1;
    const y = (bytes) => bottom - (bytes / most) * (bottom - top);
    this.drawAxes(context, y, most, top, bottom, plot);
    const memory = memoryOf(lane);
    const states = this.statesOf(memory, Math.ceil(plot));
    const until = Math.min(plot, (plot * (this.trace.end - view.start)) / view.span);
    if (until > 0) this.drawAreas(context, memory, states, y, bottom, until);
    this.drawCapacity(context, y, plot);
    this.drawHeading(context, memory, y, plot);
    if (view.time !== null && view.time >= view.start && view.time <= view.end) {
      context.fillStyle = palette.colour("muted");
      context.fillRect(Math.round(GUTTER + ((view.time - view.start) / view.span) * plot), top, 1, bottom - top);
    }
  }

  drawAxes(context, y, most, top, bottom, plot) {
    const { palette, view } = this;
    context.textAlign = "right";
    for (const mark of byteMarks(most, 5)) {
      context.fillStyle = palette.colour("line");
      context.fillRect(GUTTER, Math.round(y(mark.bytes)), plot, 1);
      context.fillStyle = palette.colour("muted");
      context.fillText(mark.text, GUTTER - 10, y(mark.bytes));
    }
    context.textAlign = "center";
    for (const mark of timeMarks(view.start, view.end, plot / 110)) {
      context.fillText(mark.text, GUTTER + ((mark.time - view.start) / view.span) * plot, bottom + 14);
    }
    context.textAlign = "left";
  }

  drawAreas(context, memory, states, y, bottom, until) {
    const { view, palette } = this;
    const names = this.trace.data.categories;
    const shown = this.trace.data.stack.filter((name) => !view.hidden.has(`m-${name}`));
    const sums = new Float64Array(states.length);
    const edges = shown.map((name) => {
      const column = memory.bytes[names.indexOf(name)];
      for (let x = 0; x < states.length; x++) sums[x] += column[states[x]];
      return Float64Array.from(sums);
    });
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, until, bottom);
    context.clip();
    // Drawn from the top down, so that each area covers the one above it.
    for (let k = shown.length - 1; k >= 0; k--) {
      context.fillStyle = palette.colour(`m-${shown[k]}`);
      context.beginPath();
      context.moveTo(GUTTER, bottom);
      for (let x = 0; x < states.length; x++) {
        const edge = y(edges[k][x]);
        if (x === 0 || edges[k][x] !== edges[k][x - 1]) context.lineTo(GUTTER + x, x === 0 ? edge : y(edges[k][x - 1]));
        context.lineTo(GUTTER + x, edge);
      }
      context.lineTo(GUTTER + states.length, y(edges[k][states.length - 1]));
      context.lineTo(GUTTER + states.length, bottom);
      context.fill();
    }
    context.restore();
  }

  drawCapacity(context, y, plot) {
    const { capacity } = this;
    if (capacity === null) return;
    const { reserve } = this.trace.data;
    this.drawLimit(context, y(capacity), plot, `capacity ${formatBytes(capacity)}`, [6, 4], -10);
    if (reserve > 0) this.drawLimit(context, y(capacity - reserve), plot, `less ${formatBytes(reserve)} of reserve`, [2, 3], 10);
  }

  /** A dashed line across the plot. Its words are `beside` it, on a ground of their own: they may lie on an area. */
  drawLimit(context, at, plot, words, dashes, beside) {
    context.strokeStyle = this.palette.colour("alarm");
    context.lineWidth = 1.5;
    context.setLineDash(dashes);
    context.beginPath();
    context.moveTo(GUTTER, at);
    context.lineTo(GUTTER + plot, at);
    context.stroke();
    context.setLineDash([]);
    const width = context.measureText(words).width;
    context.fillStyle = this.palette.colour("panel");
    context.fillRect(GUTTER + plot - width - 8, at + beside - 8, width + 8, 16);
    context.fillStyle = this.palette.colour("alarm");
    context.textAlign = "right";
    context.fillText(words, GUTTER + plot - 4, at + beside);
    context.textAlign = "left";
  }

  drawHeading(context, memory, y, plot) {
    const { palette, lane, trace, view } = this;
    const workspace = trace.data.categories.indexOf("workspace");
    let peak = 0;
    for (let i = 1; i < memory.sum.length; i++) {
      if (memory.sum[i] - memory.bytes[workspace][i] > memory.sum[peak] - memory.bytes[workspace][peak]) peak = i;
    }
    context.fillStyle = palette.colour("ink");
    context.font = `600 12px ${palette.font}`;
    const title = (trace.letter ? `${trace.letter} · ` : "") + lane.rank.title;
    context.fillText(title, 14, 14);
    const offset = context.measureText(title).width + 14;
    context.font = `12px ${palette.font}`;
    context.fillStyle = palette.colour("muted");
    context.fillText(`fullest ${formatTime(memory.time[peak])} into the iteration, with ${this.words}`, 14 + offset, 14);
    const x = GUTTER + ((memory.time[peak] - view.start) / view.span) * plot;
    if (x < GUTTER || x > GUTTER + plot) return;
    context.fillStyle = palette.colour("ink");
    context.beginPath();
    context.arc(x, y(memory.sum[peak]), 3.5, 0, 7);
    context.fill();
  }

  /** The row number of the state at a time; -1 before the first. */
  stateAt(time) { return this.lane ? firstAbove(memoryOf(this.lane).time, time) - 1 : -1; }
}
