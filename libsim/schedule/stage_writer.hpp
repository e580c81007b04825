#pragma once

#include <cstdint>
#include <vector>

#include "libsim/schedule/pipeline_schedule.hpp"
#include "libsim/schedule/steady_loop.hpp"

namespace stagecraft {

/// Writes the program of one stage: computations, the transfers between them, and repeats.
///
/// send_output_of() and receive_input_of() collect transfers, which post() starts together. They
/// leave out all that does not cross stages: the input of the model's first chunk, the output of
/// its last, what the stage passes to itself, and weight gradients.
class StageWriter {
 public:
  /// Transfers [first, first + count) of the stage.
  struct Range {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  /// Writes the microbatches of `loop.shape` into `schedule.stages[stage]`. Both arguments must
  /// outlive the writer. Pre: that stage is empty.
  StageWriter(PipelineSchedule& schedule, SteadyLoop const& loop, StageId stage);

  /// `is_paired`: the next run overlaps it.
  void run(ChunkRun const& run, bool is_paired = false);
  void send_output_of(ChunkRun const& run);
  void receive_input_of(ChunkRun const& run);

  /// Starts the transfers collected since the last post. Writes no entry if there are none.
  Range post();
  /// Writes no entry if the range is empty.
  void wait(Range range);
  /// Writes a blocking joint call.
  void exchange() { wait(post()); }

  /// Marks the first entry that repeat() may repeat.
  void begin_repeat();
  /// Repeats the entries since begin_repeat(), each time with the next microbatches, and returns
  /// how often they run: at most `times`. Repetitions do not cross the borders of the steady-state
  /// loop. They leave out the last backward of a chunk, so that its gradients can be reduced after
  /// it.
  int repeat(int times);

 private:
  void add(Transfer::End end,
           ChunkRun const& run,
           VirtualStageId virtual_stage,
           VirtualStageId other);
  void mark_border();
  int backwards_to_border() const;

  PipelineSchedule& schedule_;
  SteadyLoop const& loop_;
  StageProgram& program_;
  StageId stage_;
  std::int32_t loop_begins_after_;            ///< number of backwards before the loop
  std::int32_t posted_ = 0;                   ///< number of transfers that have been posted
  std::int32_t advance_ = 0;                  ///< added to the microbatches after the loop
  std::int32_t backwards_ = 0;                ///< backwards written so far
  std::vector<std::int32_t> backwards_left_;  ///< by chunk
  ChunkId last_chunk_{};                      ///< chunk of the latest backward
  std::int32_t loop_begin_ = StageProgram::none;
  std::int32_t repeat_begin_ = 0;  ///< first entry that may repeat
  std::int32_t backwards_before_repeat_ = 0;
};

}  // namespace stagecraft
