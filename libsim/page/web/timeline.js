// The lanes. Slices are painted pixel by pixel: drawing one rectangle per slice would take longer than a frame.

// If the slices of a lane have on average this width (device px), each is drawn by itself; if they are narrower, those
// below NARROW share columns, smoothed over SMOOTH of them, since stripes of about a pixel would only give moire patterns.
const WIDE = 2.2;
const NARROW = 12;
const SMOOTH = 4;

class Timeline {
  constructor(canvas, frame, spacer, lanes, view, palette) {
    Object.assign(this, { canvas, frame, spacer, lanes, view, palette });
    this.byStage = false;
    this.selected = { lane: lanes[0], slice: -1 };
    this.followed = null;  // microbatch
    this.arrange();
    frame.addEventListener("scroll", () => view.changed());
  }

  /** Places the lanes below each other: {lane or heading, y, height}. */
  arrange() {
    const lanes = [...this.lanes];
    const several = new Set(lanes.map((lane) => lane.trace)).size > 1;
    if (this.byStage) lanes.sort((a, b) => a.rank.stage - b.rank.stage || a.trace.index - b.trace.index);
    const height = lanes.length <= 8 ? 40 : lanes.length <= 20 ? 30 : lanes.length <= 40 ? 20 : 15;
    this.rows = [];
    let y = 4, trace = null, stage = null;
    for (const lane of lanes) {
      if (several && !this.byStage && lane.trace !== trace) {
        this.rows.push({ heading: `${lane.trace.letter} · ${lane.trace.data.file} (${lane.trace.data.clock})`, y, height: 24 });
        y += 24;
      } else if (several && this.byStage && stage !== null && lane.rank.stage !== stage) {
        y += 6;
      }
      [trace, stage] = [lane.trace, lane.rank.stage];
      this.rows.push({ lane, y, height });
      y += height;
    }
    this.contentHeight = y + 4;
  }

  /** The vertical parts of a lane, in CSS px from its top. */
  parts(height) {
    const strip = height >= 30 ? 6 : height >= 20 ? 4 : 3;
    return { top: 2, main: height - strip - 4, strip, stripTop: height - strip - 1 };
  }

  draw() {
    const began = performance.now();
    const most = Math.max(240, Math.min(Math.round(window.innerHeight * 0.72), 1000));
    const height = document.documentElement.classList.contains("printing") ? this.contentHeight : Math.min(this.contentHeight, most);
    this.frame.style.height = `${height}px`;
    const { context, width, ratio } = fitCanvas(this.canvas, height);
    this.spacer.style.height = `${Math.max(0, this.contentHeight - height)}px`;
    this.scroll = this.frame.scrollTop;
    this.width = width;
    const plot = plotWidth(width);
    context.fillStyle = this.palette.colour("panel");
    context.fillRect(0, 0, width, height);
    const image = this.paint(context, plot, height, ratio);
    context.putImageData(image, Math.round(GUTTER * ratio), 0);
    this.label(context, plot, height);
    this.drawTime = performance.now() - began;
  }

  visibleRows(height) {
    return this.rows.filter((row) => row.y + row.height > this.scroll && row.y < this.scroll + height);
  }

  /** All visible slices as image data. Collects the slices that are wide enough for a text in `this.texts`. */
  paint(context, plot, height, ratio) {
    const columns = Math.round(plot * ratio), rows = Math.round(height * ratio);
    if (!this.image || this.image.width !== columns || this.image.height !== rows) {
      this.image = context.createImageData(columns, rows);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.cover = new Float32Array(columns * CATEGORIES.length);
    }
    const panel = this.palette.colour("panel");
    this.pixels.fill(pixelOf(panel));
    this.colours = this.palette.categories.map((colour) => pixelOf(colour));
    this.dimmed = this.palette.categories.map((colour) => pixelOf(colour, 0.28, panel));
    this.shades = this.palette.categories.map((colour) =>
      [0, 1, 2, 3, 4, 5, 6, 7].map((i) => pixelOf(colour, 0.3 + 0.1 * i, panel)));
    this.texts = [];
    this.drawn = 0;
    for (const row of this.visibleRows(height)) {
      if (!row.lane) continue;
      const parts = this.parts(row.height);
      const top = row.y - this.scroll;
      const box = (y, h) => ({ top: Math.round((top + y) * ratio), bottom: Math.round((top + y + h) * ratio) });
      const main = box(parts.top, parts.main);
      if (!this.view.hidden.has("waiting")) this.hatch(main, columns, rows, ratio);
      this.paintTrack(row.lane, row.lane.main, main, columns, rows, ratio, true);
      this.paintTrack(row.lane, row.lane.side, box(parts.stripTop, parts.strip), columns, rows, ratio, false);
    }
    return this.image;
  }

  hatch(box, columns, rows, ratio) {
    const ground = pixelOf(this.palette.colour("c-waiting")), line = pixelOf(this.palette.colour("c-hatch"));
    const period = Math.round(8 * ratio), thick = Math.max(1, Math.round(1.5 * ratio));
    const until = Math.round(plotWidth(this.width) * ratio * Math.min(1, (this.view.total - this.view.start) / this.view.span));
    for (let y = Math.max(0, box.top); y < Math.min(rows, box.bottom); y++) {
      const first = y * columns;
      this.pixels.fill(ground, first, first + until);
      for (let x = period - 1 - (y % period); x < until; x += period) {
        this.pixels.fill(line, first + x, first + Math.min(until, x + thick));
      }
    }
  }

  rectangle(x0, x1, y0, y1, columns, rows, colour) {
    const from = Math.max(0, y0), to = Math.min(rows, y1);
    if (x1 - x0 === 1) {
      for (let y = from, at = from * columns + x0; y < to; y++, at += columns) this.pixels[at] = colour;
    } else {
      for (let y = from; y < to; y++) this.pixels.fill(colour, y * columns + x0, y * columns + x1);
    }
  }

  paintTrack(lane, track, box, columns, rows, ratio, isMain) {
    const { start, end, category, share, row } = track;
    const { view, cover } = this;
    const kinds = CATEGORIES.length, scale = columns / view.span;
    const hidden = CATEGORIES.map((name) => view.hidden.has(name));
    const microbatch = lane.trace.ops.microbatch;
    let covered = false;
    // Slices of one stream do not overlap, but messages of several streams share a strip.
    const first = firstAbove(start, view.start - track.longest), last = firstAbove(start, view.end);
    const isCrowded = !isMain || (last - first) * WIDE > columns;
    const alone = isCrowded ? (isMain ? NARROW * ratio : 2) : 1;
    for (let i = first; i < last; i++) {
      if (end[i] < view.start || hidden[category[i]]) continue;
      this.drawn++;
      const from = Math.max(0, (start[i] - view.start) * scale);
      const to = Math.min(columns, (end[i] - view.start) * scale);
      if (to - from >= alone) {
        const x0 = Math.round(from), x1 = Math.round(to);
        const gap = isMain && x1 - x0 > 6 * ratio ? Math.max(1, Math.round(0.75 * ratio)) : 0;
        const isDim = this.followed !== null && microbatch[row[i]] !== this.followed;
        const colours = isDim ? this.dimmed : this.colours;
        this.rectangle(x0, x1 - gap, box.top, box.bottom, columns, rows, colours[category[i]]);
        if (share[i] > 0 && !hidden[RECOMPUTE]) {
          const height = Math.max(1, Math.round((box.bottom - box.top) * share[i]));
          this.rectangle(x0, x1 - gap, box.top, box.top + height, columns, rows, colours[RECOMPUTE]);
        }
        if (isMain && to - from > 20 * ratio) this.texts.push({ lane, track, slice: i, x: x0 / ratio, width: (x1 - x0) / ratio, box, isDim });
        continue;
      }
      if (this.followed !== null && microbatch[row[i]] !== this.followed) continue;
      covered = true;
      for (let x = Math.floor(from); x < columns && x < to; x++) {
        const width = Math.min(to, x + 1) - Math.max(from, x);
        const recompute = hidden[RECOMPUTE] ? 0 : width * share[i];
        cover[x * kinds + category[i]] += width - recompute;
        cover[x * kinds + RECOMPUTE] += recompute;
      }
    }
    if (covered && isMain) this.paintCover(box, columns, rows, isCrowded ? SMOOTH : 0);
    if (covered && !isMain) this.paintStrip(box, columns, rows);
  }

  /** Draws columns of narrow slices: the height of a category is its share of the columns within `reach`. */
  paintCover(box, columns, rows, reach) {
    const kinds = CATEGORIES.length, height = box.bottom - box.top, { cover } = this;
    const window = new Float64Array(kinds);
    const add = (x, sign) => {
      if (x < 0 || x >= columns) return;
      for (let k = 0; k < kinds; k++) window[k] += sign * cover[x * kinds + k];
    };
    for (let x = 0; x < reach; x++) add(x, 1);
    for (let x = 0; x < columns; x++) {
      add(x + reach, 1);
      add(x - reach - 1, -1);
      let width = Math.min(columns - 1, x + reach) - Math.max(0, x - reach) + 1;
      // Between slices that are drawn at full height, a column has full height too.
      if (reach === 0) width = window.reduce((a, b) => a + b, 0);
      if (width < 0.25) continue;
      let y = box.bottom, rest = 0.5;
      for (let k = 0; k < kinds; k++) {
        if (window[k] <= 1e-6) continue;
        rest += (window[k] / width) * height;
        const size = Math.floor(rest);
        rest -= size;
        if (size > 0) this.rectangle(x, x + 1, Math.max(box.top, y - size), y, columns, rows, this.colours[k]);
        y -= size;
      }
    }
    cover.fill(0);
  }

  /** Draws columns of messages too short to be seen: the more of a column they take, the stronger its colour. */
  paintStrip(box, columns, rows) {
    const kinds = CATEGORIES.length, { cover } = this;
    for (let x = 0; x < columns; x++) {
      for (let k = 0; k < kinds; k++) {
        const part = cover[x * kinds + k];
        if (part === 0) continue;
        cover[x * kinds + k] = 0;
        const shade = Math.min(7, Math.floor(8 * part));
        this.rectangle(x, x + 1, box.top, box.bottom, columns, rows, this.shades[k][shade]);
      }
    }
  }

  /** Draws the names of lanes, texts in slices, and marks of the selection. */
  label(context, plot, height) {
    const { palette } = this;
    context.textBaseline = "middle";
    for (const row of this.visibleRows(height)) {
      const y = row.y - this.scroll;
      if (row.heading) {
        context.font = `600 12px ${palette.font}`;
        context.fillStyle = palette.colour("muted");
        context.fillText(row.heading, 14, y + row.height / 2 + 2);
        continue;
      }
      const isSelected = row.lane === this.selected.lane;
      context.font = `${isSelected ? "650 " : ""}${row.height >= 20 ? 12 : 10.5}px ${palette.font}`;
      context.fillStyle = palette.colour(isSelected ? "accent" : "ink");
      const prefix = this.byStage && row.lane.trace.letter ? `${row.lane.trace.letter} ` : "";
      context.fillText(prefix + row.lane.rank.title.replace(", rank", " r"), 14, y + row.height / 2, GUTTER - 20);
      if (isSelected) context.fillRect(0, y + 1, 3, row.height - 2);
    }
    this.labelSlices(context);
    this.markSelection(context, plot, height);
    this.markTime(context, height);
  }

  labelSlices(context) {
    // A frame has time for a few hundred texts.
    const texts = this.texts.length > 700 ? this.texts.filter((text) => text.width > 40) : this.texts;
    if (texts.length > 1500) return;
    context.font = `11px ${this.palette.font}`;
    context.textAlign = "center";
    for (const { lane, track, slice, x, width, box, isDim } of texts) {
      if (isDim) continue;
      const ratio = window.devicePixelRatio || 1;
      const top = box.top / ratio, size = (box.bottom - box.top) / ratio;
      if (size < 10) continue;
      const row = track.row[slice], microbatch = lane.trace.ops.microbatch[row];
      const kinds = lane.trace.kinds, kind = lane.trace.ops.kind[row];
      const name = lane.trace.data.names.op[kinds.op[kind]];
      const isChunk = /^(forward|backward|input_gradient|weight_gradient)$/.test(name);
      const text = isChunk ? `${microbatch}` : name;
      if (!isChunk && width < 6.2 * text.length) continue;
      context.fillStyle = "#fff";
      if (this.palette.isDark) context.fillStyle = "#10141a";
      context.fillText(text, GUTTER + x + width / 2, top + size / 2 + 0.5, width);
    }
    context.textAlign = "left";
  }

  markSelection(context, plot, height) {
    const { lane, slice } = this.selected;
    if (slice < 0) return;
    const row = this.rows.find((entry) => entry.lane === lane);
    const parts = this.parts(row.height);
    const scale = plot / this.view.span;
    const from = Math.max(-2, (lane.main.start[slice] - this.view.start) * scale);
    const to = Math.min(plot + 2, (lane.main.end[slice] - this.view.start) * scale);
    if (to < 0 || from > plot) return;
    context.strokeStyle = this.palette.colour("ink");
    context.lineWidth = 2;
    context.strokeRect(GUTTER + from, row.y - this.scroll + parts.top, Math.max(2, to - from), parts.main);
  }

  markTime(context, height) {
    const { time, start, end, span } = this.view;
    if (time === null || time < start || time > end) return;
    const x = GUTTER + ((time - start) / span) * plotWidth(this.width);
    context.fillStyle = this.palette.colour("muted");
    context.fillRect(Math.round(x), 0, 1, height);
  }

  /** What is at a point of the canvas (CSS px): {lane, track, slice, time}; null outside of lanes. */
  at(x, y) {
    const row = this.rows.find((entry) => entry.lane && y + this.scroll >= entry.y && y + this.scroll < entry.y + entry.height);
    if (!row) return null;
    const plot = plotWidth(this.width);
    const time = this.view.start + ((x - GUTTER) / plot) * this.view.span;
    const inside = x >= GUTTER && x <= GUTTER + plot;
    const isSide = y + this.scroll - row.y >= this.parts(row.height).stripTop - 1;
    const track = isSide ? row.lane.side : row.lane.main;
    const reach = ((isSide ? 4 : 0.7) / plot) * this.view.span;
    return { lane: row.lane, track, time, inside, isSide, slice: inside ? sliceAt(track, time, reach) : -1 };
  }
}
