#pragma once

#include <cstdint>

#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/stage_order.hpp"

namespace stagecraft {

/// Writes the issue order of one stage: computations, and the transfers between them.
///
/// Transfers are collected by send_output_of() and receive_input_of(), which leave out what does
/// not cross stages (the input of the model's first chunk, the output of its last), then issued
/// together. Where it all goes is the sink's business, so that no schedule is laid out in one form
/// and then copied into another.
///
/// A sink has run(ChunkRun const&); transfer(Transfer const&, int row), which appends to the
/// stage's list (rows: message_rows()); post(std::int32_t first, std::int32_t count); and wait()
/// likewise.
template <class Sink>
class StageWriter {
 public:
  /// Transfers [first, first + count) of the stage.
  struct Range {
    std::int32_t first = 0;
    std::int32_t count = 0;
  };

  /// Pre: the shape is legal. The sink must outlive the writer.
  StageWriter(ScheduleShape const& shape, int stage, Sink& sink)
      : sink_{sink},
        stages_{shape.stages},
        microbatches_{shape.microbatches},
        virtual_stages_{shape.stages * shape.chunks},
        stage_{stage},
        next_{stage + 1 < shape.stages ? stage + 1 : 0},
        previous_{stage > 0 ? stage - 1 : shape.stages - 1} {}

  void run(ChunkRun const& run) { sink_.run(run); }

  void send_output_of(ChunkRun const& run) {
    int const here = virtual_stage(run);
    if (run.kind == ChunkRun::Kind::forward) {
      if (here + 1 < virtual_stages_) add(Transfer::End::send, run, here + 1);
    } else if (here > 0) {
      add(Transfer::End::send, run, here);
    }
  }

  void receive_input_of(ChunkRun const& run) {
    int const here = virtual_stage(run);
    if (run.kind == ChunkRun::Kind::forward) {
      if (here > 0) add(Transfer::End::receive, run, here);
    } else if (here + 1 < virtual_stages_) {
      add(Transfer::End::receive, run, here + 1);
    }
  }

  /// Starts what was collected since the last post; no step if nothing was.
  Range post() {
    Range const range{posted_, added_ - posted_};
    posted_ = added_;
    if (range.count > 0) sink_.post(range.first, range.count);
    return range;
  }

  /// No step if the range is empty.
  void wait(Range range) {
    if (range.count > 0) sink_.wait(range.first, range.count);
  }

  /// A blocking joint call.
  void exchange() { wait(post()); }

  void begin_stretch() { sink_.begin_stretch(); }
  int repeat(int times) { return sink_.repeat(times); }

 private:
  int virtual_stage(ChunkRun const& run) const { return run.chunk * stages_ + stage_; }

  /// Adds one end of what crosses the boundary below virtual stage `upper` (1 to pm - 1).
  void add(Transfer::End end, ChunkRun const& run, int upper) {
    bool const is_forward = run.kind == ChunkRun::Kind::forward;
    bool const goes_up = is_forward == (end == Transfer::End::send);
    int const row = upper - 1 + (is_forward ? 0 : virtual_stages_ - 1);
    sink_.transfer(
        {.payload = is_forward ? Transfer::Payload::activation : Transfer::Payload::gradient,
         .end = end,
         .peer = goes_up ? next_ : previous_,
         .microbatch = run.microbatch,
         .chunk = run.chunk,
         .message = row * microbatches_ + run.microbatch},
        row);
    ++added_;
  }

  Sink& sink_;
  int stages_;
  int microbatches_;
  int virtual_stages_;
  int stage_;
  int next_;
  int previous_;
  std::int32_t added_ = 0;   ///< transfers so far
  std::int32_t posted_ = 0;  ///< transfers before this one have been posted
};

}  // namespace stagecraft
