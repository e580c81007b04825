#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libsim/engine/recorded_task.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// What to record of an iteration, and what only the caller knows about its origin.
struct RecordOptions {
  TraceDetail detail = TraceDetail::chunk;
  std::vector<StageId> stages;  ///< empty: all
  std::string command_line;
  std::string config;  ///< effective configuration, YAML
};

/// The iteration that simulate() plays, recorded: its memory peaks where that says, to the
/// picosecond and the byte, and its last row ends when the simulated iteration does. With steps
/// that are validated while the next iteration warms up, that row ends later: the recorded
/// iteration is played alone.
///
/// Rows are in issue order. What a system adds to each iteration is the last row of each rank,
/// `iteration_overhead`. Workspace is there all the time, at its declared size.
/// \throws std::invalid_argument  if the system has no cost for some op of the plan, or it has no such rank.
Trace record(TrainingPlan const& plan, System const& system, RecordOptions const& options);

/// An iteration that has been played, written to a file rank by rank, so that one rank at a time is
/// in memory.
/// \throws OutputError, and what record() throws.
void record_to_file(std::filesystem::path const& path,
                    PlayedIteration const& played,
                    RecordOptions const& options);

}  // namespace stagecraft
