#pragma once

#include <cstdint>
#include <vector>

#include "libsim/engine/costed_plan.hpp"
#include "libsim/engine/recorded_times.hpp"
#include "libsim/explain/time_kinds.hpp"

namespace stagecraft {

/// A piece of a critical path: something that had to be over before the next piece could start.
struct PathPiece {
  enum class What : std::uint8_t {
    task,      ///< of a rank, on either of its streams; a group's, as long as its slowest member's
    message,   ///< from `rank` to another
    overhead,  ///< what the system adds to each iteration
  };
  What what = What::task;
  std::int32_t rank = 0;
  std::int32_t step = -1;  ///< task: of the rank's issue order
  SimTime start{0};
  SimTime end{0};
};

/// A chain of tasks and messages without a gap, from the start of an iteration to its end: to make
/// any piece of it shorter is the only way to end earlier (while no other chain is as long).
struct CriticalPath {
  std::vector<PathPiece> pieces;  ///< in order of time; none is empty; each starts where one ends
  KindTimes kinds;                ///< of the pieces; sums to Simulation::iteration
  // These sum to Simulation::iteration too.
  std::vector<SimTime> by_rank;  ///< tasks of each rank
  SimTime in_messages{0};
  SimTime overhead{0};
  int messages = 0;  ///< how many
};

/// Walks back from the last event of an iteration, each time to what that event waited for:
/// whatever its rank did before, the message that arrived, who posted it last, the stream that was
/// still busy, or the last to join a group. Of several that it waited for equally, the rank's own
/// task comes first, then the lowest rank. Times are exact, so that what bound an event is what
/// ended when it began: recorded times tell all, and nothing is noted while the engine plays.
/// `times`: record_times(costed).
/// \throws std::logic_error  where nothing ended when something began.
CriticalPath find_critical_path(CostedPlan const& costed, RecordedTimes const& times);

}  // namespace stagecraft
