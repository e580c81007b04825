#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Consecutive rows of a rank's part of a tensor, and where they are in the whole tensor.
struct RowRange {
  std::int64_t local = 0;  ///< first row on the rank
  std::int64_t count = 0;
  std::int64_t whole = 0;   ///< first row in the whole tensor
  bool is_replica = false;  ///< whether another rank of lower number holds the same rows
};

/// Where a rank's part of a parameter is in the whole, unpadded tensor.
struct ParameterWindow {
  std::vector<RowRange> rows;  ///< without the padding rows, which are zero and stay zero
  std::int64_t columns = 1;    ///< columns of the rank's part
  std::int64_t first_column = 0;
  std::int64_t whole_rows = 0;
  std::int64_t whole_columns = 1;
};

/// The position of a rank on an axis of the rank grid, by the name of the axis.
using AxisPosition = std::function<int(std::string_view axis)>;

/// Whether a rank of lower number holds the same part of a tensor.
bool is_replica(std::vector<AxisShare> const& shares, AxisPosition const& position_on);

/// The window of the rank at these positions. A tensor with one axis has one column.
ParameterWindow window_of(Parameter const& parameter,
                          Tensor const& weight,
                          AxisPosition const& position_on);

/// One parameter of a rank, in the rank's flat order.
struct PlacedParameter {
  std::int32_t chunk = 0;   ///< index into Programs::chunks
  std::int32_t block = -1;  ///< position in the chunk
  Parameter const* parameter = nullptr;
  Tensor const* weight = nullptr;
  std::int64_t layer = -1;    ///< number in the whole model; -1 outside of layers
  std::int64_t offset = 0;    ///< elements before it in the rank's flat order
  bool is_quantised = false;  ///< whether the rank keeps quantised copies of it

  std::int64_t elements() const { return weight->shape.elements(); }
  /// The name in the whole model, e.g. layers.3.attention.qkv.weight. Both uses of a tied embedding
  /// have the same name.
  std::string name() const;
};

/// The chunks of a stage in the order in which their parts of the model follow each other. Two
/// stages that hold the same parts, one in each copy of the model, have them in the same order.
std::vector<ChunkId> chunks_in_model_order(TrainingPlan const& plan, StagePlan const& stage);

/// All parameters that a rank of the stage holds, in flat order: by chunks_in_model_order(), then
/// by block in model order, then as the block lists them. A GradientBucket is contiguous. Pointers
/// lead into the plan, which must outlive the result.
std::vector<PlacedParameter> parameter_layout(TrainingPlan const& plan, StagePlan const& stage);

/// The number in the model of the first layer of a chunk's block.
std::int64_t first_layer_of(Programs const& programs, ChunkProgram const& chunk, std::size_t block);

}  // namespace stagecraft
