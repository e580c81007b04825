#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "libsim/schedule/generators/generators.hpp"

namespace stagecraft {

namespace {

constexpr ChunkId down{0};  ///< from the first stage to the last
constexpr ChunkId up{1};    ///< and back

/// Writes the tasks of a stage and leaves out microbatches from `end` on. Weight gradients are taken
/// by chunk.
class CutStage {
 public:
  explicit CutStage(std::int32_t end) : end_{end} {}

  void forward(ChunkId chunk) { add(Pass::forward, chunk); }
  void input_gradient(ChunkId chunk) { add(Pass::input_gradient, chunk); }
  void weight_gradient(ChunkId chunk) { add(Pass::weight_gradient, chunk); }
  void gradients(ChunkId chunk) {
    input_gradient(chunk);
    weight_gradient(chunk);
  }
  /// How many of a pass are written, the left out ones too.
  std::int32_t count(Pass pass, ChunkId chunk) const {
    return counts_[static_cast<std::size_t>(pass)][chunk.index()];
  }
  std::vector<OrderTask> take() && { return std::move(tasks_); }

 private:
  void add(Pass pass, ChunkId chunk) {
    MicrobatchId const microbatch{counts_[static_cast<std::size_t>(pass)][chunk.index()]++};
    if (microbatch.value() < end_) tasks_.push_back({.run = {pass, microbatch, chunk}});
  }

  std::int32_t end_;
  std::array<std::array<std::int32_t, 2>, 5> counts_{};  ///< by Pass and chunk
  std::vector<OrderTask> tasks_;
};

std::vector<OrderTask> zbv_stage(int stage, int stages, int microbatches) {
  int const n = std::max(2 * stages - 1, microbatches);
  CutStage writer{microbatches};
  for (int k = 0; k < 2 * (stages - stage) - 1; ++k) writer.forward(down);
  for (int k = 0; k < stage; ++k) {
    writer.forward(up);
    writer.forward(down);
  }
  for (int k = stage; k < stages; ++k) {
    writer.forward(up);
    writer.gradients(up);
  }
  while (writer.count(Pass::forward, up) < n) {
    if (writer.count(Pass::forward, down) < n) writer.forward(down);
    writer.gradients(down);
    writer.forward(up);
    writer.gradients(up);
  }
  for (int k = 0; k < stage; ++k) {
    writer.input_gradient(down);
    writer.input_gradient(up);
  }
  for (int k = stage; k < stages; ++k) {
    writer.input_gradient(down);
    writer.weight_gradient(down);
  }
  for (ChunkId const chunk : {up, down}) {
    while (writer.count(Pass::weight_gradient, chunk) < n) writer.weight_gradient(chunk);
  }
  return std::move(writer).take();
}

}  // namespace

PipelineOrder zbv_order(int stages, int microbatches) {
  PipelineOrder order{v_placement(stages), microbatches, {}};
  for (int stage = 0; stage < stages; ++stage) {
    order.stages.push_back(zbv_stage(stage, stages, microbatches));
  }
  return order;
}

}  // namespace stagecraft
