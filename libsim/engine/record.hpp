#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// What to record of an iteration, and what only the caller knows about its origin.
struct RecordOptions {
  TraceDetail detail = TraceDetail::chunk;
  std::vector<StageId> stages;  ///< empty: all
  std::string command_line;
  std::string config;  ///< effective configuration, YAML
};

/// Records an iteration that has been played in a file, rank by rank, so that one rank at a time is
/// in memory.
///
/// Its memory peaks where simulate() says, to the picosecond and the byte, and its last row ends
/// when the simulated iteration does. With steps that are validated while the next iteration warms
/// up, that row ends later: the recorded iteration is played alone.
///
/// Rows are in issue order. What a system adds to each iteration is the last row of each rank,
/// `iteration_overhead`. Workspace is there all the time, at its declared size.
/// \throws OutputError  if the file cannot be written.
/// \throws std::invalid_argument  if the plan has no such stage.
void record_to_file(std::filesystem::path const& path,
                    PlayedIteration const& played,
                    RecordOptions const& options);

}  // namespace stagecraft
