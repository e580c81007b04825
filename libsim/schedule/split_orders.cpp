#include "libsim/schedule/split_orders.hpp"

#include <algorithm>
#include <string>

#include "libsim/schedule/rank_writer.hpp"
#include "libsim/schedule/schedule_error.hpp"

namespace stagecraft {

namespace {

constexpr ChunkId only{0};  ///< chunk of each stage

std::vector<OrderTask> quick_rank(int rank, int stages, int n) {
  RankWriter writer{{0}};
  int const warmup = std::min(stages - rank - 1, n);
  int const steady = n - warmup;
  for (int k = 0; k < warmup; ++k) writer.forward(only);
  for (int k = 0; k < steady; ++k) {
    bool const is_last = k + 1 == steady;
    writer.forward(only);
    if (rank == 0 || (k >= rank && !is_last)) {
      writer.backward(only);
      continue;
    }
    writer.input_gradient(only);
    if (is_last && k >= rank) writer.weight_gradient();
  }
  for (int k = steady; k < n; ++k) {
    if (rank == 0) {
      writer.backward(only);
      continue;
    }
    writer.input_gradient(only);
    if (k >= rank) writer.weight_gradient();
  }
  writer.finish_weight_gradients();
  return std::move(writer).take();
}

std::vector<OrderTask> unfused_rank(int rank, int stages, int n) {
  RankWriter writer{{0}};
  int const warmup = std::min(stages - rank - 1, n);
  for (int k = 0; k < warmup; ++k) writer.forward(only);
  for (int k = 0; k < n; ++k) {
    if (warmup + k < n) writer.forward(only);
    writer.input_gradient(only);
    if (k >= rank) writer.weight_gradient();
  }
  writer.finish_weight_gradients();
  return std::move(writer).take();
}

std::vector<OrderTask> double_warmup_rank(int rank, int stages, int n) {
  RankWriter writer{{0}};
  int const warmup = 2 * (stages - rank) - 1;
  for (int k = 0; k < warmup; ++k) writer.forward(only);
  for (int k = 0; k < n; ++k) {
    writer.input_gradient(only);
    bool const has_forward = warmup + k < n;
    if (k >= 2 * rank || !has_forward) writer.weight_gradient();
    if (has_forward) writer.forward(only);
  }
  writer.finish_weight_gradients();
  return std::move(writer).take();
}

}  // namespace

PipelineOrder zb_h1_order(int stages, int microbatches) {
  PipelineOrder order{round_placement(stages, 1), microbatches, {}};
  for (int rank = 0; rank < stages; ++rank) {
    order.ranks.push_back(quick_rank(rank, stages, microbatches));
  }
  return order;
}

PipelineOrder unfused_zb_h1_order(int stages, int microbatches) {
  PipelineOrder order{round_placement(stages, 1), microbatches, {}};
  for (int rank = 0; rank < stages; ++rank) {
    order.ranks.push_back(unfused_rank(rank, stages, microbatches));
  }
  return order;
}

PipelineOrder zb_h2_order(int stages, int microbatches) {
  if (microbatches < 2 * stages - 1) {
    throw ScheduleError{"microbatches of zb_h2", "'" + std::to_string(microbatches) + "'",
                        "at least 2p - 1 (" + std::to_string(2 * stages - 1) + ")"};
  }
  PipelineOrder order{round_placement(stages, 1), microbatches, {}};
  for (int rank = 0; rank < stages; ++rank) {
    order.ranks.push_back(double_warmup_rank(rank, stages, microbatches));
  }
  return order;
}

}  // namespace stagecraft
