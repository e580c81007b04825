#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// Writes the tasks of a stage for schedules whose chunks take microbatches in order: each call
/// adds the next microbatch of its pass and chunk. Weight gradients run oldest first, over all
/// chunks.
class TaskWriter {
 public:
  /// `first_microbatches` has the first microbatch of each chunk.
  explicit TaskWriter(std::vector<MicrobatchId> first_microbatches)
      : next_forward_{std::move(first_microbatches)}, next_gradient_{next_forward_} {}

  void forward(ChunkId chunk) { add({Pass::forward, next(next_forward_, chunk), chunk}); }
  void backward(ChunkId chunk) { add({Pass::backward, next(next_gradient_, chunk), chunk}); }
  /// Adds an input gradient, whose weight gradient is then waiting.
  void input_gradient(ChunkId chunk) {
    ChunkRun const run{Pass::input_gradient, next(next_gradient_, chunk), chunk};
    add(run);
    waiting_.push_back({Pass::weight_gradient, run.microbatch, chunk});
  }
  /// Pre: has_waiting()
  void weight_gradient() {
    add(waiting_.front());
    waiting_.pop_front();
  }
  /// A forward that overlaps a whole backward.
  void pair(ChunkId forward_chunk, ChunkId backward_chunk) {
    forward(forward_chunk);
    tasks_.back().is_paired = true;
    backward(backward_chunk);
  }

  bool has_waiting() const { return !waiting_.empty(); }
  void finish_weight_gradients() {
    while (has_waiting()) weight_gradient();
  }
  std::vector<OrderTask> take() && { return std::move(tasks_); }

 private:
  static MicrobatchId next(std::vector<MicrobatchId>& of_chunks, ChunkId chunk) {
    MicrobatchId& counter = of_chunks[chunk.index()];
    return std::exchange(counter, counter + 1);
  }
  void add(ChunkRun const& run) { tasks_.push_back({.run = run}); }

  std::vector<MicrobatchId> next_forward_;   ///< by chunk
  std::vector<MicrobatchId> next_gradient_;  ///< by chunk
  std::deque<ChunkRun> waiting_;             ///< weight gradients
  std::vector<OrderTask> tasks_;
};

}  // namespace stagecraft
