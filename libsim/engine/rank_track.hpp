#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/engine/schedule_loop.hpp"
#include "libsim/engine/task_costs.hpp"
#include "libsim/plan/stage_memory.hpp"
#include "libsim/plan/stage_order.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// One entry of a track.
struct TrackStep {
  enum class Kind : std::uint8_t {
    run,       ///< a task on the compute stream, `index` into the rank's durations
    reduce,    ///< a task on the data-parallel stream, likewise
    exchange,  ///< blocking: post ends [index, index + count) and wait for them
    post,      ///< overlapped: start them
    wait,      ///< overlapped: wait for them
    repeat,    ///< the `count` steps before it run `index` times in all
    border,    ///< of a lap: where the first begins, and where each ends
  };
  Kind kind = Kind::run;
  std::int16_t count = 0;
  std::int32_t index = 0;
};

/// One end of a message. Microbatches need no names here: a row carries its messages in order.
struct TrackEnd {
  std::int32_t row = 0;  ///< see message_rows()
  std::int32_t peer_and_end = 0;

  TrackEnd(int of_row, int peer, Transfer::End end)
      : row{of_row}, peer_and_end{2 * peer + (end == Transfer::End::send ? 1 : 0)} {}
  int peer() const { return peer_and_end / 2; }
  bool sends() const { return peer_and_end % 2 != 0; }
};

/// A rank's issue order up to its last message, one lap in place of all, with prices in place of
/// tasks; and what it holds meanwhile.
struct RankTrack {
  std::size_t first_step = 0;  ///< of Tracks::steps
  std::size_t end_step = 0;
  std::vector<SimTime> durations;  ///< by task of the rank
  StageMemory memory;
};

/// The tracks of all ranks, in arrays of their own.
struct Tracks {
  std::vector<TrackStep> steps;
  std::vector<TrackEnd> ends;
  std::vector<RankTrack> ranks;
  /// Messages of each row that are under way where laps begin: sent before the sender's border and
  /// waited for behind the receiver's. Negative: waited for before a border and sent behind one.
  std::vector<std::int32_t> crossing;
  /// A lap leaves every rank's memory as it found it, so that one lap shows the peak of all.
  bool laps_are_level = true;
};

/// Lays out all ranks' tracks. The rank plans get their tasks and step ops, and keep in their steps
/// what follows the last message.
/// Pre: `plan` is fresh from make_programs(). `prices` is of that plan.
Tracks lay_tracks(TrainingPlan& plan, ScheduleLoop const& loop, TaskCosts& prices);

}  // namespace stagecraft
