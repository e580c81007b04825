// Describes what is under the pointer or selected in lines of text; names from traces are only ever set as text.

/** [title, [[name, value], ...]] of a slice. */
function describeSlice(lane, track, slice) {
  const { ops, kinds, data } = lane.trace;
  const row = track.row[slice], kind = ops.kind[row];
  const length = ops.end[row] - ops.start[row];
  const name = data.names.op[kinds.op[kind]], phase = data.names.phase[kinds.phase[kind]];
  const lines = [["on", (lane.trace.letter ? `${lane.trace.letter}, ` : "") + lane.rank.title]];
  if (phase !== name) lines.push(["phase", phase.replaceAll("_", " ")]);
  if (ops.microbatch[row] >= 0) lines.push(["microbatch", `${ops.microbatch[row]}`]);
  if (kinds.layer[kind] >= 0) lines.push(["layer", `${kinds.layer[kind]}`]);
  if (kinds.chunk[kind] >= 0) lines.push(["chunk", `${kinds.chunk[kind]}`]);
  lines.push(["from", formatTime(ops.start[row], 7)], ["takes", formatTime(length)]);
  const share = kinds.recompute[kind] * 1e-6;
  if (share > 0) lines.push(["of it recompute", `${formatTime(length * share)} (${(100 * share).toFixed(1)} %)`]);
  const bytes = kinds.bytes[kind], flops = kinds.flops[kind];
  if (bytes > 0) lines.push(["bytes", formatBytes(bytes)]);
  if (bytes > 0 && length > 0) lines.push(["rate", formatCount(bytes / length, "B/s")]);
  if (flops > 0) lines.push(["work", formatCount(flops, "FLOP")]);
  if (flops > 0 && length > 0) lines.push(["rate", formatCount(flops / length, "FLOP/s")]);
  return [name, lines];
}

/** The same for a time at which the lane's compute stream is idle. */
function describeWaiting(lane, time) {
  const { start, end } = lane.main;
  const next = firstAbove(start, time);
  const from = next > 0 ? end[next - 1] : 0, to = next < start.length ? start[next] : lane.trace.end;
  if (time > lane.trace.end) return null;
  return ["waiting", [["on", (lane.trace.letter ? `${lane.trace.letter}, ` : "") + lane.rank.title],
    ["from", formatTime(from, 7)], ["for", formatTime(to - from)]]];
}

function describeMemory(chart, time) {
  const state = chart.stateAt(time);
  if (state < 0) return null;
  const memory = memoryOf(chart.lane), names = chart.trace.data.categories;
  const lines = [["at", formatTime(time, 6)]];
  for (const name of [...chart.trace.data.stack].reverse()) {
    const bytes = memory.bytes[names.indexOf(name)][state];
    if (bytes > 0) lines.push([name, formatBytes(bytes)]);
  }
  return [formatBytes(memory.sum[state]), lines];
}

class Tooltip {
  constructor(element, announcer) { Object.assign(this, { element, announcer }); }
  show(description, x, y) {
    if (!description) { this.hide(); return; }
    const [title, lines] = description;
    const heading = document.createElement("b");
    heading.textContent = title;
    const list = document.createElement("dl");
    for (const [name, value] of lines) {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    }
    this.element.replaceChildren(heading, list);
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const left = x + 16 + offsetWidth > window.innerWidth ? x - 16 - offsetWidth : x + 16;
    const top = Math.min(y + 16, window.innerHeight - offsetHeight - 8);
    this.element.style.left = `${Math.max(8, left)}px`;
    this.element.style.top = `${Math.max(8, top)}px`;
  }
  hide() { this.element.hidden = true; }
  /** For users of screen readers. */
  say(description) {
    if (!description) return;
    this.announcer.textContent = `${description[0]}, ${description[1].map((line) => line.join(" ")).join(", ")}`;
  }
}
