#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libsim/run/run_config.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The run file that a trace was made with, or nothing where it does not load (another version's
/// keys, or none). Nothing is read from disk: an effective configuration has all in place.
std::optional<RunConfig> run_config_of(TraceMeta const& meta);

/// How many ranks a trace is of, and which of them stand in a row.
struct PipelineShape {
  std::int32_t stages = 1;
  std::int32_t ranks_a_stage = 1;  ///< tensor * data

  /// Which of a stage's ranks it is, from 0: it exchanges messages with the same of the next stage.
  /// A simulated trace has one rank a stage, whose number is the stage's.
  std::int32_t place_of(RankTrace const& rank) const {
    return rank.rank == rank.stage ? 0 : rank.rank % ranks_a_stage;
  }
};

/// From the configuration of the trace; without one, one rank a stage and `most_stage` + 1 stages.
PipelineShape pipeline_shape_of(TraceMeta const& meta, std::int32_t most_stage);

/// "stage 3", or "stage 3, rank 17" where ranks are numbered over the whole job.
std::string title_of(RankTrace const& rank);

}  // namespace stagecraft
