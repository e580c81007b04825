#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libsim/plan/parameter_layout.hpp"

namespace stagecraft {

/// Elements [first, first + count) of the flat order whose state a rank holds, from `state` on in
/// the buffers of the state.
struct OwnedRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t state = 0;
};

/// The buffers of StagePlan::state. Parameters, gradients and optimizer state are flat, in the
/// order of parameter_layout(); what is shared covers the rank's shard of each of the stage's
/// sharded_runs. If sharded units make gradients, these are theirs.
class ParameterStore {
 public:
  /// Allocates everything; gradients and moments are zero. \throws MemoryLimitError
  explicit ParameterStore(RankContext const& context);

  std::vector<PlacedParameter> const& layout() const { return layout_; }
  std::int64_t elements() const { return elements_; }
  /// All that this rank has of one of step_tensors. Pre: it has a buffer in StagePlan::state.
  FlatRange tensor(TensorId tensor) const;
  FlatRange weights() const { return tensor(step_tensor::parameters); }
  /// From now on, the gradients of a block's unit are here, in the order of its shard.
  void place_gradients(ChunkId chunk, std::size_t block, std::byte* data);
  FlatRange gradients() const { return tensor(step_tensor::gradients); }

  /// What this rank owns of elements [first, first + count), in order.
  std::vector<OwnedRun> owned(std::int64_t first, std::int64_t count) const;
  std::vector<OwnedRun> owned() const { return owned(0, elements_); }
  /// The part of a tensor that belongs to a run.
  FlatRange part(TensorId tensor, OwnedRun const& run) const;
  FlatRange master(OwnedRun const& run) const {
    return part(has_master() ? step_tensor::master : step_tensor::parameters, run);
  }
  /// Otherwise parameters are their own master copies.
  bool has_master() const;

  /// The address of a block's parameter, gradient, counter or quantised weight. Pre: `tensor` has
  /// the lifetime of the job.
  void* data_of(std::int32_t chunk_program, std::size_t block, TensorId tensor) const;

  /// Sets a parameter, and its master copy as far as this rank has it, to `values` (the rank's
  /// part, in its order).
  void set(Backend& backend, PlacedParameter const& placed, std::span<double const> values);

  /// Sets what this rank has of a parameter's moments; arguments likewise.
  void set_moments(Backend& backend,
                   PlacedParameter const& placed,
                   std::span<double const> first,
                   std::span<double const> second);

 private:
  /// The parameters of a block, which are a unit.
  struct Unit {
    std::int64_t state = 0;  ///< the first element of its shard in the buffers of the state
    std::int64_t count = 0;
    std::byte* gradients = nullptr;
  };

  void find_owned(RankContext const& context);
  void find_units(Programs const& programs);
  void find_operands(Programs const& programs);

  StagePlan const& stage_;
  std::vector<PlacedParameter> layout_;
  std::int64_t elements_ = 0;
  std::vector<OwnedRun> owned_;
  std::array<Buffer, step_tensors.size()> buffers_;        ///< those of StagePlan::state, by tensor
  std::map<std::pair<ChunkId, std::size_t>, Unit> units_;  ///< by chunk and position in it
  struct OperandPlace {
    std::int64_t offset = 0;
    TensorId in = no_tensor;  ///< one of step_tensors; none for tensors of a microbatch
  };
  /// By chunk program (those of other stages are empty), block and tensor.
  std::vector<std::vector<std::vector<OperandPlace>>> operands_;
};

/// Sets the initial values of a rank's parameters. They are random numbers from a counter of the
/// whole tensor's name and the index in it, so every layout has the same. Padding rows are zero.
void start_parameters(RankContext const& context, ParameterStore& store);

/// Sets them to arbitrary small random numbers, in a fraction of the time, for runs that are only
/// timed.
void fill_parameters(RankContext const& context, ParameterStore& store);

}  // namespace stagecraft
