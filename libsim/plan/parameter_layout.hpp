#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Which rows of a whole tensor a run of a rank's rows are.
struct RowRange {
  std::int64_t local = 0;  ///< first row on the rank
  std::int64_t count = 0;
  std::int64_t whole = 0;   ///< first row in the whole tensor
  bool is_replica = false;  ///< another rank of lower number holds the same rows
};

/// Where a rank's part of a parameter lies in the whole, unpadded tensor.
struct ParameterWindow {
  std::vector<RowRange> rows;  ///< without padding rows, which are zero and stay zero
  std::int64_t columns = 1;    ///< of the rank's part
  std::int64_t first_column = 0;
  std::int64_t whole_rows = 0;
  std::int64_t whole_columns = 1;
};

/// The position of a rank on an axis of the rank grid, by the name of the axis.
using AxisPosition = std::function<int(std::string_view axis)>;

/// The window of the rank at these positions. Tensors with one axis have one column.
ParameterWindow window_of(Parameter const& parameter,
                          Tensor const& weight,
                          AxisPosition const& position_on);

/// One parameter of a rank, in the rank's flat order.
struct PlacedParameter {
  std::int32_t chunk = 0;   ///< program of the rank's chunk, into TrainingPlan::chunks
  std::int32_t block = -1;  ///< position in the chunk
  Parameter const* parameter = nullptr;
  Tensor const* weight = nullptr;
  std::int64_t layer = -1;  ///< of the whole model; -1 outside of layers
  std::int64_t offset = 0;  ///< elements of the rank's parameters before it

  std::int64_t elements() const { return weight->shape.elements(); }
  /// Name in the whole model, e.g. layers.3.attention.qkv.weight; both uses of a tied embedding
  /// have the same.
  std::string name() const;
};

/// All parameters that a rank of the stage holds, one after another: chunks, their blocks in model
/// order, the blocks' parameters. What is reduced together (a GradientBucket) is contiguous.
/// Pointers lead into the plan, which must outlive the result.
std::vector<PlacedParameter> parameter_layout(TrainingPlan const& plan, StagePlan const& rank);

/// Number in the model of the first layer of a chunk's block.
std::int64_t first_layer_of(TrainingPlan const& plan, ChunkProgram const& chunk, std::size_t block);

/// Elements of a rank's flat order whose optimizer state is cut into d equal shards, the last ones
/// shorter: replica r has the r-th.
struct ShardedRun {
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t shard(std::int64_t replicas) const { return (count + replicas - 1) / replicas; }
};

/// The runs of a rank, in order: all of it, or with the distributed optimizer each gradient bucket,
/// and each tied embedding that two stages hold: its shards have to fall alike on both.
/// Source: Megatron-LM core/distributed/param_and_grad_buffer.py.
std::vector<ShardedRun> sharded_runs(TrainingPlan const& plan, StagePlan const& rank);

/// Elements of the optimizer state that each replica holds: those of one shard of every run.
std::int64_t optimizer_shard(TrainingPlan const& plan, StagePlan const& rank);

}  // namespace stagecraft
