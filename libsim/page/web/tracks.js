// The content of a lane: the compute stream of a rank, and its messages and collectives.

const CATEGORIES = ["forward", "backward", "weight_gradient", "recompute", "optimizer", "data_parallel", "transfer", "tensor_parallel", "host_wait", "other"];
const CATEGORY_TITLES = {
  forward: "forward", backward: "backward", weight_gradient: "weight gradient", recompute: "recompute", optimizer: "optimizer step",
  data_parallel: "gradient exchange", transfer: "messages between stages",
  tensor_parallel: "exchange within a stage", host_wait: "host wait", other: "other", waiting: "waiting",
};
const BACKWARD = CATEGORIES.indexOf("backward");
const RECOMPUTE = CATEGORIES.indexOf("recompute");

function categoryOf(phase, stream, op) {
  if (stream === "tensor_parallel" || stream === "data_parallel") return CATEGORIES.indexOf(stream);
  if (/^(send|receive)_/.test(stream)) return CATEGORIES.indexOf("transfer");
  if (op === "weight_gradient") return CATEGORIES.indexOf(op);  // of a whole chunk, run on its own
  if (phase === "input_gradient" || phase === "weight_gradient") return BACKWARD;
  const category = CATEGORIES.indexOf(phase);
  return category >= 0 ? category : CATEGORIES.indexOf("other");
}

/** Slices by start. `longest` is how long before a time a slice that contains it can have started. */
function makeTrack(rows, ops, categoryOfKind, shareOfKind) {
  rows.sort((a, b) => ops.start[a] - ops.start[b] || a - b);
  const track = {
    row: Uint32Array.from(rows), start: new Float64Array(rows.length), end: new Float64Array(rows.length),
    category: new Uint8Array(rows.length), share: new Float32Array(rows.length), longest: 0,
  };
  rows.forEach((row, i) => {
    track.start[i] = ops.start[row];
    track.end[i] = ops.end[row];
    track.category[i] = categoryOfKind[ops.kind[row]];
    track.share[i] = shareOfKind[ops.kind[row]];
    track.longest = Math.max(track.longest, ops.end[row] - ops.start[row]);
  });
  return track;
}

/** One lane per rank of a trace. */
function makeLanes(trace) {
  const { names, ranks } = trace.data;
  const { kinds, ops } = trace;
  const count = trace.data.kinds.count;
  const category = new Uint8Array(count), share = new Float32Array(count), isMain = new Uint8Array(count);
  for (let k = 0; k < count; k++) {
    const stream = names.stream[kinds.stream[k]];
    category[k] = categoryOf(names.phase[kinds.phase[k]], stream, names.op[kinds.op[k]]);
    share[k] = kinds.recompute[k] * 1e-6;
    isMain[k] = stream === "compute" ? 1 : 0;
  }
  trace.category = category;
  let row = 0, state = 0;
  return ranks.map((rank) => {
    const main = [], side = [];
    for (const end = row + rank.ops; row < end; row++) (isMain[ops.kind[row]] ? main : side).push(row);
    const lane = {
      trace, rank, main: makeTrack(main, ops, category, share), side: makeTrack(side, ops, category, share),
      firstState: state, memory: null,
    };
    state += rank.states;
    return lane;
  });
}

/** The memory states of a lane, unpacked when they are first needed. */
function memoryOf(lane) {
  lane.memory ??= unpackMemory(lane.trace, lane.firstState, lane.rank.states);
  return lane.memory;
}

/** The first index whose value is above `time` in an ascending column. */
function firstAbove(column, time) {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

/** The slice at a time, or the nearest within `reach` seconds; -1 if there is none. */
function sliceAt(track, time, reach) {
  const next = firstAbove(track.start, time);
  let best = -1, distance = reach;
  for (let i = next - 1; i >= 0 && track.start[i] >= time - track.longest - reach; i--) {
    const apart = Math.max(0, time - track.end[i]);
    if (apart < distance || (apart === 0 && best < 0)) { best = i; distance = apart; }
    if (apart === 0) return best;
    if (next - i > 200) break;
  }
  if (next < track.start.length && track.start[next] - time < distance) best = next;
  return best;
}
