"use strict";
// Unpacks what trace_packer.cpp packed, with times in seconds.

/** Decodes numbers as column_packing.hpp describes them. */
class NumberReader {
  constructor(base64) {
    const text = atob(base64);
    this.bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) this.bytes[i] = text.charCodeAt(i);
    this.position = 0;
  }
  unsigned() {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.position++];
      if (byte === undefined) throw new Error("the page's data is cut off");
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  signed() {
    const value = this.unsigned();
    return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
  }
}

function unpackColumn(base64, count) {
  const reader = new NumberReader(base64);
  const frequent = new Float64Array(reader.unsigned());
  for (let i = 0; i < frequent.length; i++) frequent[i] = reader.signed();
  const column = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const place = reader.unsigned();
    column[i] = place > 0 ? frequent[place - 1] : reader.signed();
  }
  return column;
}

function unpackTable(table) {
  const columns = {};
  for (const name of Object.keys(table)) {
    if (name !== "count") columns[name] = unpackColumn(table[name], table.count);
  }
  return columns;
}

/** Rows of ops: start and end in seconds, kind (into kinds), microbatch (-1: none). */
function unpackOps(data) {
  const packed = unpackTable(data.ops);
  const count = data.ops.count;
  const second = data.unit * 1e-12;
  const ops = {
    start: new Float64Array(count), end: new Float64Array(count),
    kind: Uint32Array.from(packed.kind), microbatch: new Int32Array(count),
  };
  let row = 0;
  for (const rank of data.ranks) {
    const lastMicrobatch = new Float64Array(data.kinds.count).fill(-1);
    const lastLength = new Float64Array(data.kinds.count);
    let previousEnd = 0;
    for (const end = row + rank.ops; row < end; row++) {
      const kind = ops.kind[row];
      const start = previousEnd + packed.gap[row];
      lastMicrobatch[kind] += packed.microbatch[row];
      lastLength[kind] += packed.length[row];
      previousEnd = start + lastLength[kind];
      ops.start[row] = start * second;
      ops.end[row] = previousEnd * second;
      ops.microbatch[row] = lastMicrobatch[kind];
    }
  }
  return ops;
}

/** The memory states of the rank whose states begin at row `first`: time in seconds, bytes by category, their sum. */
function unpackMemory(trace, first, count) {
  const categories = trace.data.categories;
  const memory = {
    time: new Float64Array(count), sum: new Float64Array(count),
    bytes: categories.map(() => new Float64Array(count)),
  };
  const second = trace.data.unit * 1e-12;
  const changes = categories.map((name) => trace.changes[name]);
  const state = new Float64Array(categories.length);
  let time = 0;
  for (let i = 0; i < count; i++) {
    time += trace.stateTimes[first + i];
    memory.time[i] = time * second;
    const change = trace.stateChanges[first + i];
    let sum = 0;
    for (let c = 0; c < state.length; c++) {
      state[c] += changes[c][change];
      memory.bytes[c][i] = state[c];
      sum += state[c];
    }
    memory.sum[i] = sum;
  }
  return memory;
}

function unpackTrace(data, index, traceCount) {
  const states = unpackTable(data.memory);
  return {
    data, index,
    letter: traceCount > 1 ? String.fromCharCode(65 + index % 26) : "",
    end: data.end * data.unit * 1e-12,
    kinds: unpackTable(data.kinds),
    ops: unpackOps(data),
    changes: unpackTable(data.changes),
    stateTimes: states.time,
    stateChanges: Uint32Array.from(states.change),
  };
}
