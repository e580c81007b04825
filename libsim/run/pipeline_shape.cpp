#include "libsim/run/pipeline_shape.hpp"

#include <algorithm>

#include "libsim/config/problem.hpp"

namespace stagecraft {

namespace {

/// A limit, as a file may claim any stage.
constexpr std::int32_t most_stages = 1 << 20;

}  // namespace

std::optional<RunConfig> run_config_of(TraceMeta const& meta) {
  try {
    return parse_run_config(meta.config, "the trace's configuration", {});
  } catch (ConfigError const&) {
    return std::nullopt;
  }
}

PipelineShape pipeline_shape_of(TraceMeta const& meta, std::int32_t most_stage) {
  PipelineShape shape{.stages = std::clamp(most_stage, 0, most_stages - 1) + 1,
                      .ranks_per_stage = 1};
  if (auto const config = run_config_of(meta)) {
    ParallelLayout const& parallel = config->training.parallel;
    shape.stages = std::max(shape.stages, std::int32_t{parallel.pipeline});
    shape.ranks_per_stage = world_size(parallel) / parallel.pipeline;
  }
  return shape;
}

std::string title_of(RankTrace const& rank) {
  std::string title = "stage " + std::to_string(rank.stage);
  if (rank.rank != rank.stage) title += ", rank " + std::to_string(rank.rank);
  return title;
}

}  // namespace stagecraft
