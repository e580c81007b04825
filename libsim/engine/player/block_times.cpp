#include "libsim/engine/player/block_times.hpp"

#include <algorithm>
#include <array>

#include "libsim/engine/player/timeline.hpp"

namespace stagecraft {
namespace {

/// A type for the product of two times in picoseconds.
__extension__ using Wide = __int128;

/// Whether the compute stream stands still while an op of another stream runs.
bool stops_computation(Op const& op, CostModel const& cost) {
  return !cost.tensor_traffic().overlaps_backward.value && kind_of(op.stream) == StreamKind::layers;
}

SimTime& share_of(Op const& op, PassTimes& times) {
  return op.phase == Phase::forward         ? times.forward
         : op.phase == Phase::recompute     ? times.recompute
         : op.phase == Phase::data_parallel ? times.data_parallel
         : op.phase == Phase::offload       ? times.offload
                                            : times.backward;
}

/// Makes the pass take at least as long as the host takes to issue it: the streams stand still
/// before each op for its part of the host's time. What waits for no computation begins when it is
/// issued. Pre: the host takes `host` for the pass, which is longer than its duration.
void wait_for_host(PassTimes& times,
                   std::vector<Op> const& ops,
                   CostModel const& cost,
                   SimTime host) {
  Wide const idle = (host - times.duration).count();
  SimTime issued{0};
  SimTime before{0};
  SimTime shown{0};      // the part of `before` that is in host_waits
  SimTime ahead{0};      // end of what waits for no computation
  SimTime on_stream{0};  // end of all on its stream
  for (std::size_t i = 0; i < ops.size(); ++i) {
    issued += cost.host_time(ops[i]);
    if (ops[i].is_ahead) {
      SimTime const duration = times.end[i] - times.start[i];
      times.start[i] = std::max(issued, on_stream);
      times.end[i] = ahead = on_stream = times.start[i] + duration;
      continue;
    }
    Wide const part = idle * issued.count() + host.count() / 2;
    SimTime const delay{static_cast<std::int64_t>(part / host.count())};
    times.start[i] += delay;
    times.end[i] += delay;
    if (ops[i].stream == Stream::gather) on_stream = times.end[i];
    share_of(ops[i], times) += delay - before;
    before = delay;
    // What only a collective beside computation is issued later by shows before the next kernel.
    bool const is_in_turn = ops[i].stream == Stream::compute || stops_computation(ops[i], cost);
    if (!is_in_turn || delay == shown) continue;
    SimTime const start = times.start[i] - (delay - shown);
    times.host_waits.push_back({start, times.start[i], i, ops[i].phase});
    shown = delay;
  }
  share_of(ops.back(), times) += host - times.duration - before;
  SimTime const computed = times.duration + shown;
  if (computed < host) {
    times.host_waits.push_back({computed, host, ops.size(), ops.back().phase});
  }
  times.duration = host;
  if (ahead <= host) return;
  times.data_parallel += ahead - host;
  times.duration = ahead;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    bool const waits = ops[i].kind == OpKind::wait;
    if (waits && ops[static_cast<std::size_t>(ops[i].waits_for)].is_ahead) times.end[i] = ahead;
  }
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

/// Plays the ops of a pass on its streams, in issue order. Holds for each stream the end of the
/// work issued so far; `compute_`, the end on the compute stream, is also when the next op is
/// issued. The times of the ops before are final, but for those of run()'s second round.
class PassPlayer {
 public:
  PassPlayer(std::vector<Op> const& ops, CostModel const& cost) : ops_{ops}, cost_{cost} {
    times_.start.resize(ops.size());
    times_.end.resize(ops.size());
  }

  PassTimes run() {
    play_all();
    // What waits for no computation is known now, and slows down what runs beside it.
    if (std::ranges::any_of(ops_, &Op::is_ahead)) play_all();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (cost_.shares_links_with_reductions(ops_[i])) {
        times_.on_links += times_.end[i] - times_.start[i];
      }
    }
    times_.duration = compute_;
    times_.on_links = std::min(times_.on_links, compute_);
    return std::move(times_);
  }

 private:
  void play_all() {
    compute_ = communication_ = SimTime{0};
    idle_ = {};
    times_.forward = times_.recompute = times_.backward = times_.data_parallel = SimTime{0};
    times_.offload = SimTime{0};
    for (std::size_t i = 0; i < ops_.size(); ++i) play(i);
  }

  void run_on_stream(std::size_t i, SimTime from) {
    if (std::int32_t const after = ops_[i].waits_for; after >= 0) {
      from = std::max(from, times_.end[static_cast<std::size_t>(after)]);
    }
    SimTime& of_stream = idle_on(ops_[i].stream);
    times_.start[i] = std::max(from, of_stream);
    of_stream = times_.end[i] = times_.start[i] + cost_.duration(ops_[i]);
    // Gathers of units slow computation down as gradient reductions do, copies to the host do not.
    if (kind_of(ops_[i].stream) != StreamKind::layers) return;
    communication_ = std::max(communication_, of_stream);
  }

  void play(std::size_t i) {
    Op const& op = ops_[i];
    TensorTraffic const& tensor = cost_.tensor_traffic();
    Op const* const gather = tensor.own_shard_first.value ? gather_before(ops_, i) : nullptr;
    SimTime const start = compute_;
    SimTime end = compute_;
    if (gather != nullptr) {
      CostModel::SplitProduct const product = cost_.split_product(*gather, op);
      auto const gathered = static_cast<std::size_t>(ops_[i - 1].waits_for);
      SimTime const hidden = times_.end[gathered] - times_.start[gathered];
      end = start + std::max(product.own - hidden, SimTime{0}) + product.rest;
    } else if (op.stream != Stream::compute) {
      run_on_stream(i, op.is_ahead ? SimTime{0} : compute_);
      if (op.is_ahead) ahead_until_ = std::max(ahead_until_, times_.end[i]);
      if (!stops_computation(op, cost_)) return;
      share_of(op, times_) += times_.end[i] - compute_;
      compute_ = times_.end[i];
      return;
    } else if (op.kind == OpKind::wait) {
      end = std::max(compute_, times_.end[static_cast<std::size_t>(op.waits_for)]);
    } else {
      end = slowed(start, op);
    }
    share_of(op, times_) += end - compute_;
    compute_ = end;
    times_.start[i] = start;
    times_.end[i] = end;
  }

  SimTime& idle_on(Stream stream) { return idle_[static_cast<std::size_t>(stream)]; }

  /// The end of a kernel. Collectives issued so far run back to back from here on, if they run at
  /// all.
  SimTime slowed(SimTime start, Op const& op) {
    SimTime const duration = cost_.duration(op);
    if (communication_ > start) {
      return slowed_end(start, duration, communication_, cost_.slowdown_millionths());
    }
    SimTime units = ahead_until_;
    for (StreamRow const& row : stream_rows) {
      if (row.kind == StreamKind::units) units = std::max(units, idle_on(row.stream));
    }
    return slowed_end(start, duration, units, cost_.data_parallel_slowdown_millionths());
  }

  std::vector<Op> const& ops_;
  CostModel const& cost_;
  PassTimes times_;
  SimTime compute_{0};
  std::array<SimTime, stream_rows.size()> idle_{};  ///< by stream: end of its work so far
  /// End of the work so far of the streams that slow computation down as the tensor group's
  /// does.
  SimTime communication_{0};
  SimTime ahead_until_{0};  ///< end of what waits for no computation
};

}  // namespace

PassTimes time_pass(BlockProgram const& block, Pass pass, CostModel const& cost) {
  std::vector<Op> const& ops = block.ops(pass);
  PassTimes times = PassPlayer{ops, cost}.run();
  // Ops that prepare the inputs of a microbatch are issued while the pass before runs.
  if (block.kind == BlockProgram::Kind::inputs) return times;
  SimTime host{0};
  for (Op const& op : ops) host += cost.host_time(op);
  times.host_ahead = std::max(times.duration - host, SimTime{0});
  if (host > times.duration) wait_for_host(times, ops, cost, host);
  return times;
}

SimTime issue_time(std::vector<Op> const& ops, PassTimes const& times, std::size_t op) {
  if (ops[op].stream == Stream::compute) return times.start[op];
  while (op > 0 && ops[op].stream != Stream::compute) --op;
  return ops[op].stream == Stream::compute ? times.end[op] : SimTime{0};
}

}  // namespace stagecraft
