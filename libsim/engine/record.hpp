#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// Which part of an iteration to record, and facts about its origin that only the caller knows.
struct RecordOptions {
  TraceDetail detail = TraceDetail::chunk;
  std::vector<StageId> stages;  ///< empty: all
  std::string command_line;
  std::string config;  ///< effective configuration, YAML
};

/// Records an iteration that has been played into a file. Only one rank at a time is in memory.
///
/// Memory peaks at the time and with the bytes that simulate() says. The last row ends when the
/// simulated iteration does. If steps are validated while the next iteration warms up, it ends
/// later, because the recorded iteration is played alone.
///
/// Rows are in issue order. The last row of each rank, `iteration_overhead`, is what a system adds
/// to each iteration. Workspace is there all the time, at its declared size.
/// \throws OutputError  if the file cannot be written.
/// \throws std::invalid_argument  if the plan has no such stage.
void record_to_file(std::filesystem::path const& path,
                    PlayedIteration const& played,
                    RecordOptions const& options);

}  // namespace stagecraft
