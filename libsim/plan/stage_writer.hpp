#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/steady_loop.hpp"

namespace stagecraft {

/// Writes the program of one stage: computations, the transfers between them, and what repeats.
///
/// Transfers are collected by send_output_of() and receive_input_of(), which leave out what does
/// not cross stages (the input of the model's first chunk, the output of its last, and what the
/// stage hands on to itself), then issued together.
class StageWriter {
 public:
  /// Transfers [first, first + count) of the stage.
  struct Range {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  /// Writes into `schedule.stages[stage]`, which is empty. Microbatches are those of `loop.shape`.
  /// Both must outlive the writer.
  StageWriter(PipelineSchedule& schedule, SteadyLoop const& loop, int stage);

  void run(ChunkRun const& run);
  void send_output_of(ChunkRun const& run);
  void receive_input_of(ChunkRun const& run);

  /// Starts what was collected since the last post; no entry if nothing was.
  Range post();
  /// No entry if the range is empty.
  void wait(Range range);
  /// A blocking joint call.
  void exchange() { wait(post()); }

  /// What is written from here to repeat() may be repeated.
  void begin_repeat();
  /// Repeats it up to so many times in all, each time with the next microbatches, and returns how
  /// often: not across the borders of the steady-state loop, and the last backward of a chunk is
  /// written on its own, so that gradients can be reduced behind it.
  int repeat(int times);

 private:
  void add(Transfer::End end, ChunkRun const& run, int virtual_stage, int other);
  void mark_border();
  int backwards_to_border() const;

  PipelineSchedule& schedule_;
  SteadyLoop const& loop_;
  StageProgram& program_;
  std::int32_t stage_;
  std::int32_t loop_begins_after_;            ///< so many backwards
  std::int32_t posted_ = 0;                   ///< transfers before this one have been posted
  std::int32_t advance_ = 0;                  ///< of the microbatches behind the loop
  std::int32_t backwards_ = 0;                ///< so far
  std::vector<std::int32_t> backwards_left_;  ///< by chunk
  std::int32_t last_chunk_ = 0;               ///< of the latest backward
  std::int32_t loop_begin_ = StageProgram::none;
  std::int32_t repeat_begin_ = 0;  ///< entry
  std::int32_t backwards_before_repeat_ = 0;
};

}  // namespace stagecraft
