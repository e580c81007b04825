#include "libsim/engine/player/block_times.hpp"

#include <algorithm>
#include <array>

#include "libsim/engine/player/timeline.hpp"

namespace stagecraft {
namespace {

/// A type for the product of two times in picoseconds.
__extension__ using Wide = __int128;

SimTime& share_of(Op const& op, PassTimes& times) {
  return op.phase == Phase::forward     ? times.forward
         : op.phase == Phase::recompute ? times.recompute
                                        : times.backward;
}

/// Makes the pass take at least as long as the host takes to issue it: the streams stand still
/// before each op for its part of the host's time.
void wait_for_host(PassTimes& times, std::vector<Op> const& ops, CostModel const& cost) {
  SimTime host{0};
  for (Op const& op : ops) host += cost.host_time(op);
  if (host == SimTime{0} || host <= times.duration) return;
  Wide const idle = (host - times.duration).count();
  SimTime issued{0};
  SimTime before{0};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    issued += cost.host_time(ops[i]);
    Wide const part = idle * issued.count() + host.count() / 2;
    SimTime const delay{static_cast<std::int64_t>(part / host.count())};
    times.start[i] += delay;
    times.end[i] += delay;
    share_of(ops[i], times) += delay - before;
    before = delay;
  }
  times.host_wait = host - times.duration;
  times.duration = host;
}

/// The gather that the product at `i` works on, if it does on nothing else and the product of the
/// own shard runs meanwhile; null otherwise.
Op const* gather_before(std::vector<Op> const& ops, std::size_t i) {
  if (i < 2 || ops[i].kind != OpKind::gemm || ops[i - 1].kind != OpKind::wait) return nullptr;
  Op const& gather = ops[static_cast<std::size_t>(ops[i - 1].waits_for)];
  bool const is_input =
      gather.kind == OpKind::all_gather && gather.phase != Phase::input_gradient &&
      gather.phase != Phase::weight_gradient && ops[i].reads[0] == gather.writes[0];
  return is_input ? &gather : nullptr;
}

}  // namespace

PassTimes time_pass(BlockProgram const& block, Pass pass, CostModel const& cost) {
  std::vector<Op> const& ops = block.ops(pass);
  TensorTraffic const& tensor = cost.tensor_traffic();
  int const slowdown = cost.slowdown_millionths();
  PassTimes times;
  times.start.reserve(ops.size());
  times.end.reserve(ops.size());
  SimTime compute{0};
  std::array<SimTime, Stream::most> idle{};  // by stream: end of its work so far
  // End of the work so far of all streams but the compute stream.
  SimTime communication{0};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Op const& op = ops[i];
    Op const* const gather = tensor.own_shard_first.value ? gather_before(ops, i) : nullptr;
    SimTime start = compute;
    SimTime end = compute;
    if (gather != nullptr) {
      CostModel::SplitProduct const product = cost.split_product(*gather, op);
      auto const gathered = static_cast<std::size_t>(ops[i - 1].waits_for);
      SimTime const hidden = times.end[gathered] - times.start[gathered];
      end = start + std::max(product.own - hidden, SimTime{0}) + product.rest;
    } else if (op.stream != Stream::compute) {
      SimTime& of_stream = idle[op.stream.number()];
      start = std::max(compute, of_stream);
      end = start + cost.duration(op);
      of_stream = end;
      communication = std::max(communication, end);
      if (!tensor.overlaps_backward.value) {
        share_of(op, times) += end - compute;
        compute = end;
      }
    } else if (op.kind == OpKind::wait) {
      end = std::max(compute, times.end[static_cast<std::size_t>(op.waits_for)]);
    } else {
      // Collectives issued so far run back to back from here on, if they run at all.
      end = slowed_end(start, cost.duration(op), communication, slowdown);
    }
    if (op.stream == Stream::compute) {
      share_of(op, times) += end - compute;
      compute = end;
    }
    times.start.push_back(start);
    times.end.push_back(end);
    if (cost.shares_links_with_reductions(op)) times.on_links += end - start;
  }
  times.duration = compute;
  times.on_links = std::min(times.on_links, compute);
  // Ops that prepare the inputs of a microbatch are issued while the pass before runs.
  if (block.kind != BlockProgram::Kind::inputs) wait_for_host(times, ops, cost);
  return times;
}

SimTime issue_time(std::vector<Op> const& ops, PassTimes const& times, std::size_t op) {
  if (ops[op].stream == Stream::compute) return times.start[op];
  while (op > 0 && ops[op].stream != Stream::compute) --op;
  return ops[op].stream == Stream::compute ? times.end[op] : SimTime{0};
}

}  // namespace stagecraft
