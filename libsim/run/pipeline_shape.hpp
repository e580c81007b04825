#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libsim/run/run_config.hpp"
#include "libsim/schedule/orders/placement.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The configuration that a trace was made with; nullopt if it does not load (it has another
/// version's keys, or none). It is not read from disk: an effective configuration contains all
/// files.
std::optional<RunConfig> run_config_of(TraceMeta const& meta);

/// The pipeline stages and ranks of the job of a trace.
struct PipelineShape {
  std::int32_t stages = 1;
  std::int32_t ranks_per_stage = 1;  ///< tensor * data
  /// Where the chunks lie; nullopt if that is not known: then chunk after chunk over all stages.
  std::optional<Placement> placement{};

  /// The virtual stage of a chunk. A file may claim any chunk and stage: those that the placement
  /// does not have are numbered as if it went on chunk after chunk.
  std::int64_t virtual_stage(std::int64_t chunk, std::int32_t stage) const;
  /// The stage of a virtual stage, likewise.
  std::int32_t stage_of(std::int64_t virtual_stage) const;

  /// The place of a rank within its stage, from 0: ranks of equal places exchange messages between
  /// stages. A simulated trace has one rank per stage, with the number of the stage.
  std::int32_t place_of(RankTrace const& rank) const {
    return rank.rank == rank.stage ? 0 : rank.rank % ranks_per_stage;
  }
};

/// Taken from the configuration of the trace; without one, `most_stage` + 1 stages of one rank
/// each.
PipelineShape pipeline_shape_of(TraceMeta const& meta, std::int32_t most_stage);

/// "stage 3", or "stage 3, rank 17" if ranks are numbered over the whole job.
std::string title_of(RankTrace const& rank);

}  // namespace stagecraft
