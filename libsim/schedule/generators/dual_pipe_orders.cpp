#include <algorithm>
#include <string>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/orders/task_writer.hpp"

namespace stagecraft {

namespace {

void check_microbatches(std::string const& kind, int stages, int microbatches) {
  if (microbatches >= 2 * stages) return;
  throw ScheduleError{"microbatches of " + kind, "'" + std::to_string(microbatches) + "'",
                      "at least 2p (" + std::to_string(2 * stages) + ")"};
}

/// A stage at depth `depth` of `half` stages, counted from the outside in. `near` is the chunk
/// whose microbatches start on this side of the pipeline, `far` the other; `n` microbatches pass
/// through each.
void write_stage(TaskWriter& writer, int depth, int half, int n, ChunkId near, ChunkId far) {
  int const inside = half - depth - 1;  // stages further in
  for (int k = 0; k < 2 * inside; ++k) writer.forward(near);
  for (int k = 0; k <= depth; ++k) {
    writer.forward(near);
    writer.forward(far);
  }
  for (int k = 0; k < inside; ++k) {
    writer.input_gradient(far);
    writer.weight_gradient();
    writer.forward(far);
  }
  for (int k = 0; k < n - 2 * half + depth + 1; ++k) {
    if (k == 0 && inside == 0) {  // apart, which makes the bubble smaller
      writer.forward(near);
      writer.backward(far);
    } else {
      writer.pair(near, far);
    }
    writer.pair(far, near);
  }
  for (int k = 0; k < inside; ++k) {
    writer.backward(far);
    writer.pair(far, near);
  }
  // Backwards alone; the second half of them are split.
  for (int k = 0; k < 2 * (depth + 1); ++k) {
    ChunkId const chunk = k % 2 == 0 ? far : near;
    if (k <= depth) {
      writer.backward(chunk);
    } else {
      writer.input_gradient(chunk);
    }
  }
  for (int k = 0; k < inside; ++k) {
    writer.weight_gradient();
    writer.input_gradient(near);
  }
  writer.finish_weight_gradients();
}

}  // namespace

PipelineOrder dualpipev_order(int stages, int microbatches) {
  check_microbatches("dualpipev", stages, microbatches);
  PipelineOrder order{v_placement(stages), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    TaskWriter writer{{MicrobatchId{0}, MicrobatchId{0}}};
    write_stage(writer, stage, stages, microbatches, ChunkId{0}, ChunkId{1});
    order.stages.push_back(std::move(writer).take());
  }
  return order;
}

PipelineOrder dualpipe_order(int stages, int microbatches) {
  if (stages % 2 != 0) {
    throw ScheduleError{"pipeline stages of dualpipe", "'" + std::to_string(stages) + "'",
                        "an even number"};
  }
  if (microbatches % 2 != 0) {
    throw ScheduleError{"microbatches of dualpipe", "'" + std::to_string(microbatches) + "'",
                        "an even number, half for each direction"};
  }
  check_microbatches("dualpipe", stages, microbatches);
  PipelineOrder order{bidirectional_placement(stages), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    TaskWriter writer{{MicrobatchId{0}, MicrobatchId{microbatches / 2}}};
    bool const is_first_half = stage < stages / 2;
    write_stage(writer, std::min(stage, stages - 1 - stage), stages / 2, microbatches / 2,
                ChunkId{is_first_half ? 0 : 1}, ChunkId{is_first_half ? 1 : 0});
    order.stages.push_back(std::move(writer).take());
  }
  return order;
}

}  // namespace stagecraft
