// What the charts share: the times and categories that they show, their positions and colours.

const GUTTER = 104;  // px left of all plots
const RIGHT = 16;

class View {
  constructor(total) {
    this.total = total;
    this.start = 0;
    this.end = total;
    this.listeners = [];
    this.hidden = new Set();  // of categories and memory, by colour name
    this.time = null;  // under the pointer
    this.scheduled = false;
  }
  get span() { return this.end - this.start; }
  onChange(listener) { this.listeners.push(listener); }
  /** Draws once before the next frame, however often it is called. */
  changed() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      for (const listener of this.listeners) listener();
    });
  }
  show(start, end) {
    let span = Math.max(end - start, this.total * 1e-7, 1e-9);
    if (span > this.total * (1 - 1e-9)) span = this.total;
    this.start = Math.min(Math.max(0, start), this.total - span);
    this.end = this.start + span;
    this.changed();
  }
  /** Zooms so that `time` keeps its place on the screen. */
  zoom(factor, time = (this.start + this.end) / 2) {
    const span = Math.min(this.total, this.span / factor);
    const share = (time - this.start) / this.span;
    this.show(time - share * span, time + (1 - share) * span);
  }
  pan(share) { this.show(this.start + share * this.span, this.end + share * this.span); }
  reset() { this.show(0, this.total); }
  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.changed();
  }
}

/** A canvas with as many pixels as the screen has; returns {context, width, height, ratio} in CSS px. */
function fitCanvas(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(200, canvas.parentElement.clientWidth);
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) {
    [canvas.width, canvas.height] = pixels;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height, ratio };
}

const plotWidth = (width) => Math.max(50, width - GUTTER - RIGHT);

/** The colours of the theme, read from the style sheet. */
class Palette {
  constructor() { this.read(); }
  read() {
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.categories = CATEGORIES.map((name) => this.colour(`c-${name}`));
    this.font = getComputedStyle(document.body).fontFamily;
  }
}

/** "#rrggbb" as a pixel of image data (little-endian: ABGR), `share` of it over `ground`. */
function pixelOf(colour, share = 1, ground = colour) {
  const part = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mixed = [0, 1, 2].map((i) => Math.round(part(colour, i) * share + part(ground, i) * (1 - share)));
  return ((255 << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0]) >>> 0;
}
