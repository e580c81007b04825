// The whole iteration, one strip per trace, with a window around what the charts show; and the time axis.

const STRIP_HEIGHT = 30;  // px of one alone; of several each has STRIPS_HEIGHT, STRIP_GAP apart
const STRIPS_HEIGHT = 20;
const STRIP_GAP = 4;
const STRIP_MARGIN = 8;  // above and below them all

class Overview {
  constructor(canvas, axis, traces, lanes, view, palette) {
    const height = traces.length > 1 ? STRIPS_HEIGHT : STRIP_HEIGHT;
    this.strips = traces.map((trace, i) => ({
      label: (trace.letter ? `${trace.letter} · ` : "") + "all stages",
      lanes: lanes.filter((lane) => lane.trace === trace),
      top: STRIP_MARGIN + i * (height + STRIP_GAP), height, image: null,
    }));
    Object.assign(this, { canvas, axis, view, palette });
  }

  forget() { for (const strip of this.strips) strip.image = null; }

  /** The share of the lanes in each category, by pixel, smoothed over a few pixels. */
  coverage(lanes, columns) {
    const kinds = CATEGORIES.length, cover = CATEGORIES.map(() => new Float32Array(columns));
    const scale = columns / this.view.total;
    for (const { main } of lanes) {
      for (let i = 0; i < main.start.length; i++) {
        const from = main.start[i] * scale, to = Math.min(columns, main.end[i] * scale);
        for (let x = Math.floor(from); x < to; x++) {
          const width = (Math.min(to, x + 1) - Math.max(from, x)) / lanes.length;
          cover[main.category[i]][x] += width * (1 - main.share[i]);
          cover[RECOMPUTE][x] += width * main.share[i];
        }
      }
    }
    for (let k = 0; k < kinds; k++) {
      cover[k] = cover[k].map((value, x, all) => {
        const near = all.subarray(Math.max(0, x - SMOOTH), x + SMOOTH + 1);
        return near.reduce((a, b) => a + b, 0) / near.length;
      });
    }
    return cover;
  }

  paintStrip(lanes, columns, rows) {
    const image = document.createElement("canvas");
    [image.width, image.height] = [columns, rows];
    const context = image.getContext("2d");
    context.fillStyle = this.palette.colour("c-waiting");
    context.fillRect(0, 0, columns, rows);
    const below = new Float32Array(columns);
    this.coverage(lanes, columns).forEach((cover, k) => {
      context.fillStyle = this.palette.categories[k];
      for (let x = 0; x < columns; x++) {
        if (cover[x] > 0) context.fillRect(x, rows * (1 - below[x] - cover[x]), 1, rows * cover[x] + 0.5);
        below[x] += cover[x];
      }
    });
    return image;
  }

  draw() {
    const { view, palette } = this;
    const last = this.strips[this.strips.length - 1];
    const { context, width, height, ratio } = fitCanvas(this.canvas, last.top + last.height + STRIP_MARGIN);
    const plot = plotWidth(width), top = STRIP_MARGIN, bottom = height - STRIP_MARGIN;
    this.width = width;
    const columns = Math.round(plot * ratio);
    context.fillStyle = palette.colour("panel");
    context.fillRect(0, 0, width, height);
    context.font = `12px ${palette.font}`;
    context.textBaseline = "middle";
    context.fillStyle = palette.colour("muted");
    for (const strip of this.strips) {
      if (strip.image?.width !== columns) strip.image = this.paintStrip(strip.lanes, columns, Math.round(strip.height * ratio));
      context.drawImage(strip.image, GUTTER, strip.top, plot, strip.height);
      context.fillText(strip.label, 14, strip.top + strip.height / 2);
    }
    const from = GUTTER + (view.start / view.total) * plot, to = GUTTER + (view.end / view.total) * plot;
    context.globalAlpha = 0.6;
    context.fillStyle = palette.colour("panel");
    context.fillRect(GUTTER, top, from - GUTTER, bottom - top);
    context.fillRect(to, top, GUTTER + plot - to, bottom - top);
    context.globalAlpha = 1;
    context.strokeStyle = palette.colour("ink");
    context.lineWidth = 1.5;
    context.strokeRect(from - 0.5, top - 3, Math.max(3, to - from + 1), bottom - top + 6);
    this.drawAxis();
  }

  drawAxis() {
    const { view, palette } = this;
    const { context, width, height } = fitCanvas(this.axis, 26);
    const plot = plotWidth(width);
    context.fillStyle = palette.colour("panel");
    context.fillRect(0, 0, width, height);
    context.font = `12px ${palette.font}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    for (const mark of timeMarks(view.start, view.end, plot / 110)) {
      const x = GUTTER + ((mark.time - view.start) / view.span) * plot;
      context.fillStyle = palette.colour("muted");
      context.fillText(mark.text, x, height / 2 - 1);
      context.fillStyle = palette.colour("line");
      context.fillRect(Math.round(x), height - 5, 1, 5);
    }
    context.textAlign = "left";
  }

  timeAt(x) { return ((x - GUTTER) / plotWidth(this.width)) * this.view.total; }
}
