#pragma once

#include <cstdint>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/explain/time_kinds.hpp"

namespace stagecraft {

/// A piece of a critical path: the next piece could not start before this one was over.
struct PathPiece {
  enum class What : std::uint8_t {
    task,      ///< a task of a stage, on either stream; for a group, that of its slowest member
    message,   ///< from `stage` to another
    overhead,  ///< what the system adds to each iteration
  };
  What what = What::task;
  std::int32_t stage = 0;
  std::int32_t entry = -1;  ///< task: entry of the stage's issue order
  SimTime start{0};
  SimTime end{0};
};

/// A chain of tasks and messages without a gap, from the start of an iteration that is played alone
/// to its end. That becomes shorter only if a piece of it does (and no other chain is as long). It
/// is longer than Simulation::iteration if the next iteration begins before it ends, as with steps
/// that are validated meanwhile.
struct CriticalPath {
  std::vector<PathPiece> pieces;  ///< in order of time; each starts when the one before ends
  SimTime in_next{0};             ///< how much of it the next iteration runs beside
  KindTimes kinds;                ///< of the pieces; sums to Simulation::iteration + in_next
  // These sum to that too.
  std::vector<SimTime> by_stage;  ///< tasks of each stage
  SimTime in_messages{0};
  SimTime overhead{0};
  int messages = 0;  ///< number of messages
};

/// Goes back from the last event of an iteration, each time to what that event waited for: the
/// task before it on the same stage, the message that arrived, the end that posted it last, the
/// stream that was still busy, or the last stage to join a group. If several ended at the same
/// time, the stage's own task comes first, then the lowest stage. Times are exact, so an event
/// waited for whatever ended when it began, and the recorded times alone suffice.
/// Pre: `times` is record_times(costed).
/// \throws std::logic_error  if nothing ended when something began.
CriticalPath find_critical_path(CostedPlan const& costed, RecordedTimes const& times);

}  // namespace stagecraft
