#include <algorithm>
#include <cstddef>
#include <string>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/interleaving.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/orders/task_writer.hpp"

namespace stagecraft {

namespace {

void check_group(int stages, int n, int group) {
  bool const is_all = n < stages && group == n;
  if (is_all || is_group(group, n, stages)) return;
  throw ScheduleError{"microbatches per group", "'" + std::to_string(group) + "'",
                      "from p (" + std::to_string(stages) + ") to n (" + std::to_string(n) +
                          "), the last group full or of at least p; with n < p: n"};
}

/// Which of the two runs of a steady step overlap.
enum class Steady { one_by_one, paired };

PipelineOrder alternating_order(
    int stages, int n, int chunks, int group, int extra_warmup, Steady steady) {
  std::vector<ChunkRun> const forwards = grouped_forwards(n, chunks, group);
  auto const forward = [&](int k) { return forwards[static_cast<std::size_t>(k)]; };
  int const all = n * chunks;
  PipelineOrder order{round_placement(stages, chunks), n, {}};
  for (int stage = 0; stage < stages; ++stage) {
    TaskWriter writer{std::vector<MicrobatchId>(static_cast<std::size_t>(chunks))};
    int const warmup =
        std::min(interleaved_warmup(stages - stage - 1, chunks, group) + extra_warmup, all);
    for (int k = 0; k < all + warmup; ++k) {
      if (k < warmup) {
        writer.forward(forward(k).chunk);
        continue;
      }
      ChunkId const backward = mirrored(forward(k - warmup).chunk, chunks);
      if (k >= all) {
        writer.backward(backward);
      } else if (steady == Steady::paired) {
        writer.pair(forward(k).chunk, backward);
      } else {
        writer.forward(forward(k).chunk);
        writer.backward(backward);
      }
    }
    order.stages.push_back(std::move(writer).take());
  }
  return order;
}

}  // namespace

std::vector<ChunkRun> grouped_forwards(int microbatches, int chunks, int group) {
  std::vector<ChunkRun> forwards;
  forwards.reserve(static_cast<std::size_t>(microbatches) * static_cast<std::size_t>(chunks));
  for (int first = 0; first < microbatches; first += group) {
    int const last = std::min(first + group, microbatches);
    for (ChunkId const chunk : IdRange<ChunkId>{chunks}) {
      for (int microbatch = first; microbatch < last; ++microbatch) {
        forwards.push_back({Pass::forward, MicrobatchId{microbatch}, chunk});
      }
    }
  }
  return forwards;
}

PipelineOrder interleaved_order(int stages, int microbatches, int chunks, int group) {
  check_group(stages, microbatches, group);
  return alternating_order(stages, microbatches, chunks, group, 0, Steady::one_by_one);
}

PipelineOrder looped_order(int stages, int microbatches, int chunks) {
  std::vector<OrderTask> tasks;
  std::vector<ChunkRun> const forwards = grouped_forwards(microbatches, chunks, microbatches);
  tasks.reserve(2 * forwards.size());
  for (ChunkRun const& run : forwards) tasks.push_back({.run = run});
  for (auto run = forwards.rbegin(); run != forwards.rend(); ++run) {
    tasks.push_back({.run = {Pass::backward, run->microbatch, run->chunk}});
  }
  return {round_placement(stages, chunks), microbatches,
          std::vector(static_cast<std::size_t>(stages), tasks)};
}

PipelineOrder expert_overlap_order(int stages, int microbatches, int chunks, int group) {
  if (stages > 1 && chunks < 2) {
    throw ScheduleError{"chunks per stage with expert overlap", "'1'",
                        "at least 2 on several stages"};
  }
  check_group(stages, microbatches, group);
  return alternating_order(stages, microbatches, chunks, group, 1, Steady::paired);
}

PipelineOrder interleaved_zb_order(int stages, int microbatches, int chunks) {
  int const rounds = std::max(1, microbatches / stages);
  if (microbatches % rounds != 0) {
    throw ScheduleError{"microbatches of interleaved_zb", "'" + std::to_string(microbatches) + "'",
                        "a multiple of floor(n/p) (" + std::to_string(rounds) + ")"};
  }
  int const group = microbatches / rounds;
  std::vector<ChunkRun> const forwards = grouped_forwards(microbatches, chunks, group);
  auto const forward = [&](int k) { return forwards[static_cast<std::size_t>(k)]; };
  int const all = microbatches * chunks;
  PipelineOrder order{round_placement(stages, chunks), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    TaskWriter writer{std::vector<MicrobatchId>(static_cast<std::size_t>(chunks))};
    int const warmup = std::min((chunks - 1) * group + stages - stage - 1, all);
    for (int k = 0; k < warmup; ++k) writer.forward(forward(k).chunk);
    for (int k = 0; k < all; ++k) {
      if (warmup + k < all) writer.forward(forward(warmup + k).chunk);
      writer.input_gradient(mirrored(forward(k).chunk, chunks));
      if (k >= stage) writer.weight_gradient();
    }
    writer.finish_weight_gradients();
    order.stages.push_back(std::move(writer).take());
  }
  return order;
}

}  // namespace stagecraft
