#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/engine/priced_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

struct Interval {
  SimTime start{0};
  SimTime end{0};
};

/// When everything of an iteration happened on one rank.
struct RankTimes {
  /// By step: a run's own time; of a wait or drain, the time that it took. 0 to 0 for posts, and
  /// for waits that took no time.
  std::vector<Interval> steps;
  std::vector<Interval> transfers;  ///< by transfer: while it occupies this rank's end of it
};

/// When everything of an iteration happened.
struct RecordedTimes {
  std::vector<RankTimes> ranks;
  SimTime makespan{0};  ///< without what the system adds to each iteration
};

/// Where a message is sent and where it is received.
struct MessageEnds {
  struct End {
    std::size_t rank = 0;
    std::size_t transfer = 0;  ///< of StagePlan::transfers
  };
  End send;
  End receive;
};

/// By message.
std::vector<MessageEnds> ends_of_messages(TrainingPlan const& plan);

/// Plays an iteration and keeps every time. \throws ScheduleDeadlock
///
/// Blocking messages occupy both ends from start to arrival. Overlapped ones occupy each end for
/// their occupancy only (LogGP): the sender's from the start, the receiver's up to the arrival.
RecordedTimes record_times(PricedPlan const& priced);

}  // namespace stagecraft
