#include "libsim/engine/block_times.hpp"

#include <algorithm>

#include "libsim/engine/timeline.hpp"

namespace stagecraft {

PassTimes time_pass(BlockProgram const& block, Pass pass, CostModel const& cost) {
  std::vector<Op> const& ops = block.ops(pass);
  int const slowdown = cost.slowdown_millionths();
  PassTimes times;
  times.start.reserve(ops.size());
  times.end.reserve(ops.size());
  SimTime compute{0};
  SimTime communication{0};
  for (Op const& op : ops) {
    SimTime start = compute;
    SimTime end = compute;
    if (op.stream == Stream::tensor_parallel) {
      start = std::max(compute, communication);
      end = start + cost.price(op);
      communication = end;
    } else if (op.kind == OpKind::wait) {
      end = std::max(compute, times.end[static_cast<std::size_t>(op.waits_for)]);
    } else {
      // Collectives issued so far run back to back from here on, if they run at all.
      end = slowed_end(start, cost.price(op), communication, slowdown);
    }
    if (op.stream == Stream::compute) {
      SimTime& share = op.phase == Phase::forward     ? times.forward
                       : op.phase == Phase::recompute ? times.recompute
                                                      : times.backward;
      share += end - compute;
      compute = end;
    }
    times.start.push_back(start);
    times.end.push_back(end);
  }
  times.duration = compute;
  return times;
}

SimTime issue_time(std::vector<Op> const& ops, PassTimes const& times, std::size_t op) {
  if (ops[op].stream == Stream::compute) return times.start[op];
  while (op > 0 && ops[op].stream != Stream::compute) --op;
  return ops[op].stream == Stream::compute ? times.end[op] : SimTime{0};
}

}  // namespace stagecraft
