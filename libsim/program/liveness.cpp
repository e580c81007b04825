#include "libsim/program/liveness.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "libsim/program/tensor_copies.hpp"

namespace stagecraft {
namespace {

constexpr std::int32_t no_region = -1;

/// The recompute regions of a backward, and the second run of those that weight gradients need.
/// Between two calls, `made_` has, before each op that was appended, all regions that it needs,
/// once.
class SecondRun {
 public:
  SecondRun(BlockProgram& block, std::vector<Op> const& backward)
      : block_{block},
        backward_{backward},
        copies_{block.tensors.size()},
        maker_(block.tensors.size(), no_region) {
    for (Op const& op : backward) {
      if (op.region == no_region) continue;
      for (TensorId const id : op.writes) maker_[buffer_of(id)] = op.region;
      auto const needed = static_cast<std::size_t>(op.region) + 1;
      if (has_run_.size() < needed) has_run_.resize(needed);
    }
  }

  void append(Op op) {
    for (TensorId const id : op.reads) run_maker_of(id);
    copies_.apply(op.reads);
    copies_.apply(op.writes);
    made_.push_back(op);
  }

  std::vector<Op> finish() && {
    check_inputs();
    return std::move(made_);
  }

 private:
  std::size_t buffer_of(TensorId id) const {
    return static_cast<std::size_t>(block_.tensor(id).buffer);
  }
  std::int32_t maker_of(TensorId id) const {
    std::size_t const buffer = buffer_of(id);
    return buffer < maker_.size() ? maker_[buffer] : no_region;
  }

  void run_maker_of(TensorId id) {
    std::int32_t const region = maker_of(id);
    if (region == no_region || has_run_[static_cast<std::size_t>(region)]) return;
    has_run_[static_cast<std::size_t>(region)] = true;
    // Regions may read what others have recomputed, so those others come first.
    for (Op const& op : backward_) {
      if (op.region != region) continue;
      for (TensorId const read : op.reads) run_maker_of(read);
    }
    for (Op const& op : backward_) {
      if (op.region == region) copies_.append_copy(block_, op, made_);
    }
  }

  /// Between the two runs of a region nobody may write what it reads.
  void check_inputs() const {
    std::vector<bool> is_needed(maker_.size());
    for (Op const& op : backward_) {
      bool const runs_again =
          op.region != no_region && has_run_[static_cast<std::size_t>(op.region)];
      if (runs_again) {
        for (TensorId const id : op.reads) {
          if (maker_of(id) == no_region) is_needed[buffer_of(id)] = true;
        }
        continue;
      }
      for (TensorId const id : op.writes) {
        bool const is_state = block_.tensor(block_.tensor(id).buffer).lifetime == Lifetime::job;
        if (is_state || buffer_of(id) >= is_needed.size() || !is_needed[buffer_of(id)]) continue;
        throw std::logic_error{to_string(op.name) +
                               " overwrites what recompute for weight gradients still reads"};
      }
    }
  }

  BlockProgram& block_;
  std::vector<Op> const& backward_;
  TensorCopies copies_;
  std::vector<std::int32_t> maker_;  ///< the region that recomputes a buffer, by buffer
  std::vector<bool> has_run_;        ///< whether a region has run for weight gradients, by region
  std::vector<Op> made_;
};

/// Returns the second pass of a split backward that recomputes inputs again. Before an op that
/// reads what a region has recomputed, the whole region runs once more, with copies of its own. The
/// inputs of a checkpoint therefore stay until this pass.
///
/// `backward` is the whole backward without waits; `weights` are its ops that belong to the second
/// pass, in order.
/// \throws std::logic_error  if an op of the first pass overwrites what a region still needs.
std::vector<Op> with_recompute_again(BlockProgram& block,
                                     std::vector<Op> const& backward,
                                     std::vector<Op> const& weights) {
  SecondRun second{block, backward};
  for (Op const& op : weights) second.append(op);
  return std::move(second).finish();
}

/// A collective that the compute stream has not waited for yet.
struct Pending {
  std::int32_t position;
  Op const* op;
};

bool touches(BlockProgram const& block, TensorList const& ids, TensorList const& others) {
  return std::any_of(ids.begin(), ids.end(), [&](TensorId id) {
    return std::any_of(others.begin(), others.end(), [&](TensorId other) {
      return block.tensor(id).buffer == block.tensor(other).buffer;
    });
  });
}

/// Whether an op must wait for the collective: it uses the result, or overwrites an operand.
/// Collectives of one group keep their order without it.
bool conflicts(BlockProgram const& block, Op const& op, Op const& collective) {
  if (op.stream != Stream::compute && op.group == collective.group) return false;
  return touches(block, op.reads, collective.writes) ||
         touches(block, op.writes, collective.writes) ||
         touches(block, op.writes, collective.reads);
}

std::vector<Op> with_waits(BlockProgram const& block, std::vector<Op> const& ops) {
  std::vector<Op> result;
  result.reserve(ops.size() + 16);
  std::vector<Pending> pending;
  // A stream runs in issue order, so that a wait for one op is a wait for all before it there.
  // Returns the number of ops before `last` that are still pending.
  auto const wait_for = [&](std::size_t last) {
    Op const& op = *pending[last].op;
    Op wait;
    wait.kind = OpKind::wait;
    wait.name = {op.name.owner, "wait"};
    wait.phase = op.phase;
    wait.module = op.module;
    wait.layer = op.layer;
    wait.waits_for = pending[last].position;
    result.push_back(wait);
    auto const end = pending.begin() + static_cast<std::ptrdiff_t>(last) + 1;
    auto const left = std::remove_if(
        pending.begin(), end, [&](Pending const& other) { return other.op->stream == op.stream; });
    auto const others = static_cast<std::size_t>(left - pending.begin());
    pending.erase(left, end);
    return others;
  };
  for (Op const& op : ops) {
    std::int32_t after = op.waits_for;
    for (std::size_t i = pending.size(); i-- > 0;) {
      if (!conflicts(block, op, *pending[i].op)) continue;
      if (op.stream == Stream::sum_over_copies) {
        after = std::max(after, pending[i].position);
      } else {
        i = wait_for(i);
      }
    }
    if (op.stream == Stream::compute) {
      result.push_back(op);
      continue;
    }
    pending.push_back({static_cast<std::int32_t>(result.size()), &op});
    result.push_back(op);
    result.back().waits_for = after;
    if (!op.asynchronous) wait_for(pending.size() - 1);
  }
  while (!pending.empty()) wait_for(pending.size() - 1);
  return result;
}

/// The position at which the compute stream knows that the op at `position` is over: the op itself,
/// or the wait for it.
std::int32_t end_position(std::vector<Op> const& ops, std::int32_t position) {
  Stream const stream = ops[static_cast<std::size_t>(position)].stream;
  if (stream == Stream::compute) return position;
  for (auto i = static_cast<std::size_t>(position) + 1; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::wait || ops[i].waits_for < position) continue;
    if (ops[static_cast<std::size_t>(ops[i].waits_for)].stream == stream) {
      return static_cast<std::int32_t>(i);
    }
  }
  assert(false && "every collective is waited for");
  return static_cast<std::int32_t>(ops.size()) - 1;
}

/// Whether the op waits for the second pass of a split backward: a product for the gradient of a
/// weight, or what gathers or transposes its input again.
bool is_of_weights(Op const& op) {
  return op.phase == Phase::weight_gradient &&
         (op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm ||
          op.kind == OpKind::transpose_quantised || op.stream != Stream::compute);
}

void check_operands(BlockProgram const& block) {
  std::vector<Op const*> waiting;
  for (Op const& op : block.backward) {
    if (op.kind == OpKind::wait) continue;
    if (is_of_weights(op)) {
      waiting.push_back(&op);
      continue;
    }
    for (Op const* const weights : waiting) {
      if (!touches(block, op.writes, weights->reads)) continue;
      throw std::logic_error{to_string(op.name) + " overwrites what " + to_string(weights->name) +
                             " still reads in a split backward"};
    }
  }
}

std::vector<BufferLife> lives_over(BlockProgram const& block, std::span<Pass const> passes) {
  std::vector<BufferLife> life(block.tensors.size());
  auto const at = [&](TensorId buffer) -> BufferLife& {
    return life[static_cast<std::size_t>(buffer)];
  };
  auto const enter = [&](TensorId id, Pass pass) {
    if (id == no_tensor) return;
    BufferLife& entry = at(block.tensor(id).buffer);
    if (entry.buffer != no_tensor) return;
    entry = {.buffer = block.tensor(id).buffer,
             .allocate_pass = pass,
             .allocate = BufferLife::outside,
             .release_pass = pass,
             .release = -1};
  };
  enter(block.input, Pass::forward);
  for (Pass const pass : passes) {
    bool const takes_gradient = pass == Pass::backward || pass == Pass::input_gradient;
    if (takes_gradient) enter(block.grad_output, pass);
    for (Handover const& handover : block.handovers) {
      if (handover.pass == pass) enter(handover.taken, pass);
    }
    std::vector<Op> const& ops = block.ops(pass);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      auto const position = static_cast<std::int32_t>(i);
      auto const use = [&](TensorId id) {
        Tensor const& tensor = block.tensor(block.tensor(id).buffer);
        if (tensor.lifetime == Lifetime::job) return;
        BufferLife& entry = at(tensor.buffer);
        if (entry.buffer == no_tensor) {
          entry.buffer = tensor.buffer;
          entry.allocate_pass = pass;
          entry.allocate = position;
        }
        if (entry.release_pass != pass) entry.release = -1;
        entry.release_pass = pass;
        entry.release = std::max(entry.release, end_position(ops, position));
      };
      for (TensorId const id : ops[i].reads) use(id);
      for (TensorId const id : ops[i].writes) use(id);
    }
  }
  auto const leave = [&](TensorId id) {
    if (id != no_tensor) at(block.tensor(id).buffer).release = BufferLife::outside;
  };
  leave(block.output);
  leave(block.grad_input);
  for (Handover const& handover : block.handovers) leave(handover.left);
  std::vector<BufferLife> lives;
  for (BufferLife const& entry : life) {
    if (entry.buffer != no_tensor) lives.push_back(entry);
  }
  return lives;
}

}  // namespace

void insert_waits(BlockProgram& block) {
  block.forward = with_waits(block, block.forward);
  block.backward = with_waits(block, block.backward);
  block.recompute = with_waits(block, block.recompute);
}

void derive_liveness(BlockProgram& block) {
  block.lives = lives_over(block, std::array{Pass::forward, Pass::recompute, Pass::backward});
}

void split_backward(BlockProgram& block) {
  check_operands(block);
  std::vector<Op> whole;
  std::vector<Op> first;
  std::vector<Op> second;
  for (Op const& op : block.backward) {
    if (op.kind == OpKind::wait) continue;  // each pass gets waits of its own
    whole.push_back(op);
    (is_of_weights(op) ? second : first).push_back(op);
  }
  block.input_gradient = with_waits(block, first);
  bool const runs_again = block.policy.for_weights == WeightRecompute::again;
  if (runs_again) second = with_recompute_again(block, whole, second);
  block.weight_gradient = with_waits(block, second);
  block.split_lives = lives_over(block, std::array{Pass::forward, Pass::recompute,
                                                   Pass::input_gradient, Pass::weight_gradient});
}

}  // namespace stagecraft
