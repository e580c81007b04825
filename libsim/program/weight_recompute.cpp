#include "libsim/program/weight_recompute.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

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

}  // namespace

std::vector<Op> with_recompute_again(BlockProgram& block,
                                     std::vector<Op> const& backward,
                                     std::vector<Op> const& weights) {
  SecondRun second{block, backward};
  for (Op const& op : weights) second.append(op);
  return std::move(second).finish();
}

}  // namespace stagecraft
