#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "libsim/engine/record.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// The trace that record_to_file() writes of an iteration, read again.
inline Trace recorded(TrainingPlan const& plan,
                      System const& system,
                      RecordOptions const& options) {
  std::filesystem::path const file = std::filesystem::temp_directory_path() /
                                     ("stagecraft-recorded-" + std::to_string(::getpid()) + ".h5");
  record_to_file(file, PlayedIteration{plan, system}, options);
  Trace trace = TraceReader{file}.read_all();
  std::filesystem::remove(file);
  return trace;
}

}  // namespace stagecraft
