#include "libsim/plan/parameter_layout.hpp"

#include <algorithm>

namespace stagecraft {
namespace {

std::int64_t offset_of(std::vector<AxisShare> const& shares, AxisPosition const& position_on) {
  std::int64_t offset = 0;
  for (AxisShare const& share : shares) {
    offset += position_on(share.axis) / share.replicas * share.stride;
  }
  return offset;
}

bool is_quantised(BlockProgram const& block, TensorId weight) {
  return std::ranges::find(block.quantised_weights, weight, &QuantisedWeight::weight) !=
         block.quantised_weights.end();
}

}  // namespace

bool is_replica(std::vector<AxisShare> const& shares, AxisPosition const& position_on) {
  return std::any_of(shares.begin(), shares.end(), [&](AxisShare const& share) {
    return position_on(share.axis) % share.replicas != 0;
  });
}

ParameterWindow window_of(Parameter const& parameter,
                          Tensor const& weight,
                          AxisPosition const& position_on) {
  ParameterWindow window;
  window.columns = weight.shape.rank() > 1 ? weight.shape[1] : 1;
  window.first_column = offset_of(parameter.column_shares, position_on);
  window.whole_rows = parameter.whole_rows;
  window.whole_columns = parameter.whole_columns;
  std::int64_t local = 0;
  for (RowSegment const& segment : parameter.segments) {
    std::int64_t const whole = segment.first + offset_of(segment.shares, position_on);
    std::int64_t const count = std::min(segment.rows, parameter.whole_rows - whole);
    if (count > 0) {
      window.rows.push_back({local, count, whole, is_replica(segment.shares, position_on)});
    }
    local += segment.rows;
  }
  return window;
}

std::string PlacedParameter::name() const {
  if (parameter->tied_embedding) return "embedding.weight";
  std::string const own = to_string(weight->name);
  return layer < 0 ? own : "layers." + std::to_string(layer) + "." + own;
}

std::int64_t first_layer_of(Programs const& programs,
                            ChunkProgram const& chunk,
                            std::size_t block) {
  std::int64_t layer = chunk.first_layer;
  for (std::size_t i = 0; i < block; ++i) {
    layer += programs.blocks[static_cast<std::size_t>(chunk.blocks[i])].layers;
  }
  return layer;
}

std::vector<ChunkId> chunks_in_model_order(TrainingPlan const& plan, StagePlan const& stage) {
  std::vector<ChunkId> chunks;
  for (ChunkId const chunk : stage.chunks.ids()) chunks.push_back(chunk);
  Placement const& placement = plan.placement;
  std::ranges::sort(chunks, {}, [&](ChunkId chunk) {
    return placement.part_of(placement.virtual_stage({stage.stage, chunk}));
  });
  return chunks;
}

std::vector<PlacedParameter> parameter_layout(TrainingPlan const& plan, StagePlan const& stage) {
  std::vector<PlacedParameter> placed;
  std::int64_t offset = 0;
  for (ChunkId const held : chunks_in_model_order(plan, stage)) {
    std::int32_t const index = stage.chunks[held].program;
    ChunkProgram const& chunk = plan.programs.chunks[static_cast<std::size_t>(index)];
    std::int64_t layer = chunk.first_layer;  // first layer of the block
    for (std::size_t position = 0; position < chunk.blocks.size(); ++position) {
      BlockProgram const& block =
          plan.programs.blocks[static_cast<std::size_t>(chunk.blocks[position])];
      for (Parameter const& parameter : block.parameters) {
        if (parameter.shared) continue;
        Tensor const& weight = block.tensor(parameter.weight);
        placed.push_back({.chunk = index,
                          .block = static_cast<std::int32_t>(position),
                          .parameter = &parameter,
                          .weight = &weight,
                          .layer = layer_of(block.kind, layer, weight.layer),
                          .offset = offset,
                          .is_quantised = is_quantised(block, parameter.weight)});
        offset += placed.back().elements();
      }
      layer += block.layers;
    }
  }
  return placed;
}

}  // namespace stagecraft
