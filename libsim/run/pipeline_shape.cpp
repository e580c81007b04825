#include "libsim/run/pipeline_shape.hpp"

#include <algorithm>

#include "libsim/config/problem.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {

namespace {

/// A limit, as a file may claim any stage.
constexpr std::int32_t most_stages = 1 << 20;

}  // namespace

std::int64_t PipelineShape::virtual_stage(std::int64_t chunk, std::int32_t stage) const {
  bool const is_placed = placement && chunk >= 0 && chunk < placement->chunks() && stage >= 0 &&
                         stage < placement->stages();
  // Up to this limit, far above real chunks, no product overflows.
  if (!is_placed) return std::min<std::int64_t>(chunk, 1 << 20) * stages + stage;
  return placement->virtual_stage({StageId{stage}, ChunkId{static_cast<int>(chunk)}}).value();
}

std::int32_t PipelineShape::stage_of(std::int64_t virtual_stage) const {
  if (placement && virtual_stage >= 0 && virtual_stage < placement->virtual_stages()) {
    return placement->place(VirtualStageId{static_cast<int>(virtual_stage)}).stage.value();
  }
  return static_cast<std::int32_t>((virtual_stage % stages + stages) % stages);
}

std::optional<RunConfig> run_config_of(TraceMeta const& meta) {
  try {
    return parse_run_config(meta.config, "the trace's configuration", {});
  } catch (ConfigError const&) {
    return std::nullopt;
  }
}

PipelineShape pipeline_shape_of(TraceMeta const& meta, std::int32_t most_stage) {
  PipelineShape shape{.stages = std::clamp(most_stage, 0, most_stages - 1) + 1};
  if (auto const config = run_config_of(meta)) {
    ParallelLayout const& parallel = config->training.parallel;
    shape.stages = std::max(shape.stages, std::int32_t{parallel.pipeline});
    shape.ranks_per_stage = world_size(parallel) / parallel.pipeline;
    shape.placement = placement_of(config->training);
  }
  return shape;
}

std::string title_of(RankTrace const& rank) {
  std::string title = "stage " + std::to_string(rank.stage);
  if (rank.rank != rank.stage) title += ", rank " + std::to_string(rank.rank);
  return title;
}

}  // namespace stagecraft
