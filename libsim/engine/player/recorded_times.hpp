#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/engine/player/player.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

struct Interval {
  SimTime start{0};
  SimTime end{0};
};

/// When everything of an iteration happened on one stage.
struct RecordedStage {
  IssueOrder order;
  /// By entry of the order: a run's own time; of a wait or drain, the time that it took. 0 to 0 for
  /// posts, and for waits that took no time.
  std::vector<Interval> entries;
  std::vector<Interval> transfers;  ///< by transfer: while it occupies this stage's end of it
};

/// When everything of an iteration happened.
struct RecordedTimes {
  std::vector<RecordedStage> stages;
  /// From the start of an iteration that is played alone to the end of its last stage, without what
  /// the system adds to each iteration. A step taken ahead is validated within it.
  SimTime makespan{0};
  /// From one iteration to the next: shorter than the makespan if the next one warms up while steps
  /// are validated (Timeline::period).
  SimTime period{0};
};

/// Where a message is sent and where it is received.
struct MessageEnds {
  struct End {
    std::size_t stage = 0;
    std::size_t transfer = 0;  ///< of its issue order
  };
  End send;
  End receive;
};

/// By message; `messages` of them.
std::vector<MessageEnds> ends_of_messages(std::vector<RecordedStage> const& stages,
                                          std::int32_t messages);

/// Keeps every time of an iteration: an observer of the player.
///
/// Blocking messages occupy both ends from start to arrival. Overlapped ones occupy each end for
/// their occupancy only (LogGP): the sender's from the start, the receiver's up to the arrival.
class TimeRecorder {
 public:
  static constexpr bool hears = true;
  explicit TimeRecorder(CostedPlan const& costed);

  // A group task is first waited for, then run: its own time is what stays.
  void ran(StageId stage, RanEntry const& what, SimTime start, SimTime end);
  void shared_links(StageId stage, SimTime from, SimTime beside, SimTime delay);
  void waited(StageId stage, std::int32_t entry, SimTime start, SimTime end) {
    times_.stages[stage.index()].entries[static_cast<std::size_t>(entry)] = {start, end};
  }
  void transferred(StageId stage, std::int32_t transfer, SimTime start, SimTime end);

  /// `period`: that of the timeline.
  RecordedTimes finish(SimTime period) &&;

 private:
  CostedPlan const& costed_;
  RecordedTimes times_;
  std::vector<MessageEnds> messages_;
  std::vector<std::vector<std::int32_t>> reductions_;  ///< by stage: entries of data-parallel tasks
};

/// Plays an iteration and keeps every time. \throws ScheduleDeadlock
RecordedTimes record_times(CostedPlan const& costed);

}  // namespace stagecraft
