#pragma once

#include <cstdint>

#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/stage_program.hpp"

namespace stagecraft {

/// A stage's issue order of which one stretch, a lap, is written once and runs several times.
///
/// Entries and transfers are numbered as if the lap ran once: the microbatches and messages behind
/// it are those of a shorter iteration, until insert_repeat() has numbered them.
struct LappedOrder {
  IssueOrder order;            ///< without repeats
  std::int32_t lap_begin = 0;  ///< the lap: entries [lap_begin, lap_end) of the order
  std::int32_t lap_end = 0;
  std::int32_t lap_transfers_end = 0;  ///< transfers before this one are posted before lap_end
  std::int32_t times = 1;              ///< that the lap runs; 1: the order is complete
  std::int32_t advance = 0;            ///< of the microbatches, each time
};

/// The order in which a stage issues the schedule's entries if it stores the first `stored` passes
/// of each window (store_window()). A lap is the shortest stretch of whole steady-state loops after
/// which both the order and the passes that are stored repeat, and which is no shorter than a
/// window, so that all that is in flight behind a lap has begun in it. Windows have another length
/// on every stage, and so have laps.
LappedOrder order_in_laps(PipelineSchedule const& schedule, StageId stage, int stored);

/// Writes the repeat of a lap behind it, and numbers what follows. `first`: the entry of the
/// program that is the order's first.
void insert_repeat(StageProgram& program, LappedOrder const& lapped, std::int32_t first);

}  // namespace stagecraft
