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

/// The times of everything that happened in an iteration on one stage.
struct RecordedStage {
  IssueOrder order;
  /// The interval of each entry of the order. A wait or drain has the interval for which it waited;
  /// posts, and waits that did not wait, have 0 to 0.
  std::vector<Interval> entries;
  std::vector<Interval> transfers;  ///< by transfer: the time in which it occupies this stage's end
};

/// The times of everything that happened in an iteration.
struct RecordedTimes {
  std::vector<RecordedStage> stages;
  /// From the start of an iteration that is played alone to the end of its last stage, without what
  /// the system adds to each iteration. A step taken ahead is validated within it.
  SimTime makespan{0};
  /// From one iteration to the next: shorter than the makespan if the next one warms up while steps
  /// are validated (Timeline::period).
  SimTime period{0};
};

/// The two ends of a message.
struct MessageEnds {
  struct End {
    std::size_t stage = 0;
    std::size_t transfer = 0;  ///< index into the transfers of the issue order
  };
  End send;
  End receive;
};

/// The ends of `messages` messages, by message.
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

  // A group task is first waited for, then run. Its own time overwrites that of the wait.
  void ran(StageId stage, RanEntry const& what, SimTime start, SimTime end);
  void shared_links(StageId stage, SimTime from, SimTime beside, SimTime delay);
  void waited(StageId stage, std::int32_t entry, SimTime start, SimTime end) {
    times_.stages[stage.index()].entries[static_cast<std::size_t>(entry)] = {start, end};
  }
  void transferred(StageId stage, std::int32_t transfer, SimTime start, SimTime end);

  /// `period` is that of the timeline.
  RecordedTimes finish(SimTime period) &&;

 private:
  CostedPlan const& costed_;
  RecordedTimes times_;
  std::vector<MessageEnds> messages_;
  std::vector<std::vector<std::int32_t>> reductions_;  ///< by stage: entries of data-parallel tasks
};

}  // namespace stagecraft
