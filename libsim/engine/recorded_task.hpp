#pragma once

#include <cstdint>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/memory/memory_moves.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// A row of a task. Its time is relative to the task's start.
struct RecordedOp {
  SimTime start{0};
  SimTime end{0};
  std::int64_t op = 0;  ///< index into the names of the trace
  TracePhase phase = TracePhase::forward;
  Stream stream = Stream::compute;
  std::int64_t layer = -1;
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
};

/// A state of a rank's memory, relative to the task's start in time and in bytes.
struct RecordedMemory {
  SimTime time{0};
  CategoryBytes bytes;
};

/// The rows that a task leaves in a trace each time it runs.
struct RecordedTask {
  std::vector<RecordedOp> ops;  ///< in issue order
  /// The state after each change, except the release of an output that was kept
  /// (releases_output()).
  std::vector<RecordedMemory> memory;
};

/// The states of memory in a summary: the peak, if there is one, and the end, at `peak_time` and
/// `end`.
std::vector<RecordedMemory> recorded_memory(MemoryProfile const& profile,
                                            SimTime peak_time,
                                            SimTime end);

/// One element per task of a rank. Memory is that of the programs `held`, to which `memories`
/// belong.
std::vector<RecordedTask> record_tasks(CostedPlan const& costed,
                                       Programs const& held,
                                       MemoryMoves& memories,
                                       std::size_t rank,
                                       TraceVocabulary const& vocabulary,
                                       TraceDetail detail);

}  // namespace stagecraft
