#include "libsim/training/layer_split.hpp"

#include <algorithm>
#include <cstddef>

#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

/// Layers of every stage, all its chunks together.
std::vector<std::int64_t> layers_of_stages(TrainingConfig const& config) {
  LayerSplit const& split = config.layout;
  auto const stages = static_cast<std::size_t>(config.parallel.pipeline);
  std::int64_t const ends = (split.first ? 1 : 0) + (split.last ? 1 : 0);
  std::int64_t const between = config.parallel.pipeline - ends;
  std::int64_t const rest = config.model.layers - split.first.value_or(0) - split.last.value_or(0);
  std::vector<std::int64_t> layers(stages, between > 0 ? rest / between : 0);
  if (split.first) layers.front() = *split.first;
  if (split.last) layers.back() = *split.last;
  return layers;
}

int chunks_of_copy(TrainingConfig const& config, Placement const& placement) {
  return std::max(1, config.parallel.interleave / placement.copies());
}

}  // namespace

int chunks_of_copy(TrainingConfig const& config) {
  return chunks_of_copy(config, placement_of(config));
}

std::vector<std::int64_t> layers_of_virtual_stages(TrainingConfig const& config) {
  LayerSplit const& split = config.layout;
  Placement const placement = placement_of(config);
  std::vector<std::int64_t> parts;
  if (split.kind == LayerSplit::Kind::list &&
      split.list.size() == static_cast<std::size_t>(placement.parts())) {
    parts = split.list;
  } else {
    std::vector<std::int64_t> const per_stage =
        split.kind == LayerSplit::Kind::list ? split.list : layers_of_stages(config);
    int const chunks = chunks_of_copy(config, placement);
    for (VirtualStageId const v : IdRange<VirtualStageId>{placement.parts()}) {
      parts.push_back(per_stage[placement.place(v).stage.index()] / chunks);
    }
  }
  std::vector<std::int64_t> layers;
  layers.reserve(static_cast<std::size_t>(placement.virtual_stages()));
  for (VirtualStageId const v : placement.virtual_stage_ids()) {
    layers.push_back(parts[static_cast<std::size_t>(placement.part_of(v))]);
  }
  return layers;
}

}  // namespace stagecraft
