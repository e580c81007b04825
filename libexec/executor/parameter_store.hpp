#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libsim/plan/parameter_layout.hpp"

namespace stagecraft {

/// What a rank trains: parameters, gradients and optimizer state, each in one flat buffer in the
/// order of parameter_layout().
///
/// With the distributed optimizer the state covers one shard of each of sharded_runs().
class ParameterStore {
 public:
  /// Allocates everything; gradients and moments are zero. \throws MemoryLimitError
  explicit ParameterStore(RankContext const& context);

  std::vector<PlacedParameter> const& layout() const { return layout_; }
  std::int64_t elements() const { return elements_; }
  FlatRange weights() const { return flat(weights_, weight_type_, elements_); }
  FlatRange gradients() const { return flat(gradients_, gradient_type_, elements_); }

  /// Elements [first, first + count) of the flat order whose state this rank holds, from `state` on
  /// in the buffers of the state.
  struct OwnedRun {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t state = 0;
  };
  /// What this rank owns of elements [first, first + count), in order.
  std::vector<OwnedRun> owned(std::int64_t first, std::int64_t count) const;
  std::vector<OwnedRun> owned() const { return owned(0, elements_); }
  std::vector<ShardedRun> const& sharded() const { return sharded_; }

  /// fp32 copies of 16-bit parameters; others are their own master.
  FlatRange master(OwnedRun const& run) const {
    return has_master() ? flat(master_, gradient_type_, state_).part(run.state, run.count)
                        : weights().part(run.first, run.count);
  }
  FlatRange first_moment(OwnedRun const& run) const {
    return flat(first_moment_, gradient_type_, state_).part(run.state, run.count);
  }
  FlatRange second_moment(OwnedRun const& run) const {
    return flat(second_moment_, gradient_type_, state_).part(run.state, run.count);
  }
  bool has_master() const { return static_cast<bool>(master_); }

  /// Where a block's parameter or its gradient lies; pre: `tensor` is one of the job's lifetime.
  void* data_of(std::int32_t chunk_program, std::size_t block, TensorId tensor) const;

  /// Sets a parameter, and its master copy as far as this rank has it, to `values` (the rank's
  /// part, in its order).
  void set(Backend& backend, PlacedParameter const& placed, std::span<double const> values);

  /// Sets what this rank has of a parameter's moments; arguments likewise.
  void set_moments(Backend& backend,
                   PlacedParameter const& placed,
                   std::span<double const> first,
                   std::span<double const> second);

  /// Elements of the flat order that belong to a bucket.
  struct Run {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  Run run_of(Task const& task) const;

 private:
  static FlatRange flat(Buffer const& buffer, ElementType type, std::int64_t elements) {
    return {buffer.data(), type, elements};
  }
  void find_operands(TrainingPlan const& plan);

  std::vector<PlacedParameter> layout_;
  ElementType weight_type_;
  ElementType gradient_type_;
  std::int64_t elements_ = 0;
  std::vector<ShardedRun> sharded_;
  std::vector<OwnedRun> owned_;
  std::int64_t state_ = 0;  ///< elements of master copies, and of each moment
  Buffer weights_;
  Buffer gradients_;
  Buffer master_;
  Buffer first_moment_;
  Buffer second_moment_;
  struct OperandPlace {
    std::int64_t offset = -1;  ///< in the flat order; -1 where a tensor is no parameter
    bool is_gradient = false;
  };
  /// By chunk program (those of other stages are empty), block and tensor.
  std::vector<std::vector<std::vector<OperandPlace>>> operands_;
};

}  // namespace stagecraft
