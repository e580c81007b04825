#pragma once

#include <cstdint>

#include "libsim/schedule/pipeline_schedule.hpp"
#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

/// A stage's issue order in which windows of stored microbatches repeat (a window repeat): one
/// part, the body, is written once and runs several times.
///
/// Entries and transfers are numbered as if the body ran once: the microbatches and messages after
/// it are those of a shorter iteration, until insert_repeat() has numbered them.
struct RepeatedWindows {
  IssueOrder order;             ///< without repeats
  std::int32_t body_begin = 0;  ///< the body: entries [body_begin, body_end) of the order
  std::int32_t body_end = 0;
  std::int32_t body_transfers_end = 0;  ///< transfers before this one are posted before body_end
  std::int32_t times = 1;               ///< times that the body runs; 1: the order is complete
  std::int32_t advance = 0;             ///< by which microbatches advance each time
};

/// The order in which a stage issues the schedule's entries if it stores the first `stored` passes
/// of each window (store_window()). The body is the shortest sequence of whole steady-state loops
/// after which both the order and the choice of stored passes repeat. It is at least as long as a
/// window, so that all passes that are in flight at its end have begun in it. Windows, and so
/// bodies, have another length on every stage.
RepeatedWindows repeat_windows(PipelineSchedule const& schedule, StageId stage, int stored);

/// Writes the repeat after the body, and numbers the entries that follow it. `first` is the
/// position in the program of the order's first entry.
void insert_repeat(StageProgram& program, RepeatedWindows const& windows, std::int32_t first);

}  // namespace stagecraft
