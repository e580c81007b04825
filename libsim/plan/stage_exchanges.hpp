#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/stage_order.hpp"

namespace stagecraft {

/// Writes the issue order of one stage: computations, and the transfers between them.
///
/// Transfers are collected by send_output_of() and receive_input_of(), which leave out what does
/// not cross stages (the input of the model's first chunk, the output of its last), then issued
/// together.
class StageWriter {
 public:
  /// Transfers [first, first + count) of the stage.
  struct Range {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  /// Pre: the shape is legal.
  StageWriter(ScheduleShape const& shape, int stage);

  void run(ChunkRun const& run);
  void send_output_of(ChunkRun const& run);
  void receive_input_of(ChunkRun const& run);

  Range post();  ///< starts what was collected since the last post; no step if nothing was
  void wait(Range range);            ///< no step if the range is empty
  void exchange() { wait(post()); }  ///< a blocking joint call

  StageSchedule finish() && { return std::move(schedule_); }

 private:
  int virtual_stage(ChunkRun const& run) const { return run.chunk * stages_ + stage_; }
  int message(Transfer::Payload payload, int upper, int microbatch) const;
  void add(Transfer::End end, Transfer::Payload payload, int upper, ChunkRun const& run);

  int stages_;
  int microbatches_;
  int virtual_stages_;
  int stage_;
  std::int32_t posted_ = 0;  ///< transfers before this one have been posted
  StageSchedule schedule_;
};

/// Messages of an iteration: an activation and a gradient for each microbatch and each boundary
/// between virtual stages.
int message_count(ScheduleShape const& shape);

/// GPipe and 1F1B with blocking exchanges. Warm-up: receive, forward, send; steady: the forward's
/// output goes out while the gradient comes in, then the backward's while the next input comes in;
/// cool-down: receive, backward, send. GPipe has warm-up and cool-down only.
/// Source: Megatron-LM schedules.py, forward_backward_pipelining_without_interleaving.
void append_blocking_steps(StageWriter& writer, VirtualOrder const& order, int warmup);

/// Interleaved 1F1B with blocking exchanges: in the steady phase one joint call after each forward
/// and backward moves all four messages. Stage 0 receives at its forward k what stage p-1 made at
/// its forward k-(p-1), earlier than it needs it; likewise stage p-1 for gradients.
/// Source: Megatron-LM schedules.py, forward_backward_pipelining_with_interleaving, no overlap.
void append_interleaved_blocking_steps(StageWriter& writer,
                                       VirtualOrder const& order,
                                       ScheduleShape const& shape,
                                       int stage);

/// Any schedule with overlapped transfers. After each computation one post sends its output and
/// opens the receive of the computation after the next; before each computation one wait takes the
/// post of one computation earlier. So a receive is open for one computation before its consumer,
/// and a send is waited for (its buffer released) one computation after its producer.
///
/// Sends must be buffered: a send may be waited for before the other end has opened its receive.
void append_overlapped_steps(StageWriter& writer, std::vector<ChunkRun> const& runs);

}  // namespace stagecraft
