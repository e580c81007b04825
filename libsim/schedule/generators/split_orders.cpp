#include <algorithm>
#include <string>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/orders/task_writer.hpp"

namespace stagecraft {

namespace {

constexpr ChunkId only{0};  ///< chunk of each stage

std::vector<OrderTask> quick_stage(int stage, int stages, int n) {
  TaskWriter writer{{MicrobatchId{0}}};
  int const warmup = std::min(stages - stage - 1, n);
  int const steady = n - warmup;
  for (int k = 0; k < warmup; ++k) writer.forward(only);
  for (int k = 0; k < steady; ++k) {
    bool const is_last = k + 1 == steady;
    writer.forward(only);
    if (stage == 0 || (k >= stage && !is_last)) {
      writer.backward(only);
      continue;
    }
    writer.input_gradient(only);
    if (is_last && k >= stage) writer.weight_gradient();
  }
  for (int k = steady; k < n; ++k) {
    if (stage == 0) {
      writer.backward(only);
      continue;
    }
    writer.input_gradient(only);
    if (k >= stage) writer.weight_gradient();
  }
  writer.finish_weight_gradients();
  return std::move(writer).take();
}

std::vector<OrderTask> unfused_stage(int stage, int stages, int n) {
  TaskWriter writer{{MicrobatchId{0}}};
  int const warmup = std::min(stages - stage - 1, n);
  for (int k = 0; k < warmup; ++k) writer.forward(only);
  for (int k = 0; k < n; ++k) {
    if (warmup + k < n) writer.forward(only);
    writer.input_gradient(only);
    if (k >= stage) writer.weight_gradient();
  }
  writer.finish_weight_gradients();
  return std::move(writer).take();
}

std::vector<OrderTask> double_warmup_stage(int stage, int stages, int n) {
  TaskWriter writer{{MicrobatchId{0}}};
  int const warmup = 2 * (stages - stage) - 1;
  for (int k = 0; k < warmup; ++k) writer.forward(only);
  for (int k = 0; k < n; ++k) {
    writer.input_gradient(only);
    bool const has_forward = warmup + k < n;
    if (k >= 2 * stage || !has_forward) writer.weight_gradient();
    if (has_forward) writer.forward(only);
  }
  writer.finish_weight_gradients();
  return std::move(writer).take();
}

}  // namespace

PipelineOrder zb_h1_order(int stages, int microbatches) {
  PipelineOrder order{round_placement(stages, 1), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    order.stages.push_back(quick_stage(stage, stages, microbatches));
  }
  return order;
}

PipelineOrder unfused_zb_h1_order(int stages, int microbatches) {
  PipelineOrder order{round_placement(stages, 1), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    order.stages.push_back(unfused_stage(stage, stages, microbatches));
  }
  return order;
}

PipelineOrder zb_h2_order(int stages, int microbatches) {
  if (microbatches < 2 * stages - 1) {
    throw ScheduleError{"microbatches of zb_h2", "'" + std::to_string(microbatches) + "'",
                        "at least 2p - 1 (" + std::to_string(2 * stages - 1) + ")"};
  }
  PipelineOrder order{round_placement(stages, 1), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    order.stages.push_back(double_warmup_stage(stage, stages, microbatches));
  }
  return order;
}

}  // namespace stagecraft
