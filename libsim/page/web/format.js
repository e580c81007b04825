// Numbers for people.

function digits(value, significant) {
  const before = Math.max(1, Math.floor(Math.log10(Math.abs(value) || 1)) + 1);
  return value.toFixed(Math.max(0, significant - before));
}

/** Seconds with the unit that fits `scale` (default: the time itself). */
function formatTime(time, significant = 4, scale = time) {
  const size = Math.abs(scale);
  if (size >= 1 || size === 0) return `${digits(time, significant)} s`;
  if (size >= 1e-3) return `${digits(time * 1e3, significant)} ms`;
  if (size >= 1e-6) return `${digits(time * 1e6, significant)} µs`;
  return `${digits(time * 1e9, significant)} ns`;
}

/** The unit that fits a number of bytes: [name, bytes]. */
function byteUnit(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 ** (unit + 1) && unit < units.length - 1) unit++;
  return [units[unit], 1024 ** unit];
}

function formatBytes(bytes) {
  const [unit, size] = byteUnit(bytes);
  return size === 1 ? `${bytes} bytes` : `${digits(bytes / size, 4)} ${unit}`;
}

function formatCount(value, unit) {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  let prefix = 0;
  while (Math.abs(value) >= 1000 && prefix < prefixes.length - 1) { value /= 1000; prefix++; }
  return `${prefix === 0 ? value : digits(value, 4)} ${prefixes[prefix]}${unit}`;
}

/** A step of 1, 2 or 5 times a power of ten that gives at most `most` steps in `span`. */
function roundStep(span, most) {
  const raw = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  for (const factor of [1, 2, 5]) if (power * factor >= raw) return power * factor;
  return power * 10;
}

/** Marks of an axis of time from `start` to `end`: {time, text}, all in one unit. */
function timeMarks(start, end, most) {
  const step = roundStep(end - start, most);
  const [unit, scale] = step >= 0.1 ? ["s", 1] : step >= 1e-4 ? ["ms", 1e3] : ["µs", 1e6];
  const decimals = Math.max(0, -Math.floor(Math.log10(step * scale) + 1e-9));
  const marks = [];
  for (let i = Math.ceil(start / step - 1e-9); i * step <= end; i++) {
    marks.push({ time: i * step, text: `${(i * step * scale).toFixed(decimals)} ${unit}` });
  }
  return marks;
}

/** Marks of an axis of memory from 0 to `largest` bytes: {bytes, text}, all in one unit. */
function byteMarks(largest, most) {
  const [unit, size] = byteUnit(largest);
  const step = roundStep(largest / size, most), marks = [];
  for (let i = 0; i * step * size <= largest; i++) {
    marks.push({ bytes: i * step * size, text: `${+(i * step).toFixed(6)} ${unit}` });
  }
  return marks;
}
