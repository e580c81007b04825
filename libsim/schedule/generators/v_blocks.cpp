#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>

#include "libsim/schedule/generators/generators.hpp"

namespace stagecraft {

namespace {

/// Kinds of task, in the order in which a microbatch's tasks on a stage depend on each other:
/// forwards of chunk 0 and 1, input gradients of chunk 1 and 0, then weight gradients.
enum Kind : std::size_t { forward_0, forward_1, gradient_1, gradient_0, weight_1, weight_0 };
constexpr std::size_t block_size = 4;
constexpr int interval = 6;  ///< slots from one microbatch to the next: two each of F, I and W

/// The slots of a stage's tasks, by Kind and microbatch; ascending per kind. Weight gradients of
/// both chunks are in one list (weight_1) until the end.
using StageSlots = std::vector<std::vector<int>>;
using Slots = std::vector<StageSlots>;  ///< by stage

int last_slot(StageSlots const& stage) {
  int last = 0;
  for (auto const& slots : stage) {
    if (!slots.empty()) last = std::max(last, slots.back());
  }
  return last;
}

/// The task in each slot of a stage; `block_size + 2` if the slot is free.
std::vector<std::size_t> occupants(StageSlots const& stage) {
  std::vector<std::size_t> kinds(static_cast<std::size_t>(last_slot(stage)) + 1, block_size + 2);
  for (std::size_t kind = 0; kind < stage.size(); ++kind) {
    for (int const slot : stage[kind]) kinds[static_cast<std::size_t>(slot)] = kind;
  }
  return kinds;
}

bool is_gradient(std::size_t kind) { return kind == gradient_1 || kind == gradient_0; }

/// Puts weight gradients into free slots, those of chunk 1 first, in one list or one per chunk.
void add_weights(StageSlots& stage, bool by_chunk) {
  std::vector<std::size_t> const kinds = occupants(stage);
  stage.resize(block_size + (by_chunk ? 2 : 1));
  std::array<int, 2> waiting{};
  int slot = 0;
  for (; slot < static_cast<int>(kinds.size()); ++slot) {
    std::size_t const kind = kinds[static_cast<std::size_t>(slot)];
    if (is_gradient(kind)) ++waiting.at(by_chunk ? kind - gradient_1 : 0);
    if (kind < block_size) continue;
    std::size_t const chosen = waiting[0] > 0 ? 0 : 1;
    if (waiting.at(chosen) == 0) continue;
    stage[weight_1 + chosen].push_back(slot);
    --waiting.at(chosen);
  }
  for (std::size_t chosen = 0; chosen < 2; ++chosen) {
    for (; waiting.at(chosen) > 0; --waiting.at(chosen)) stage[weight_1 + chosen].push_back(slot++);
  }
}

/// The most chunks that the stage holds at once. Without weight gradients of its own it runs one in
/// each free slot.
int peak_of(StageSlots const& stage) {
  bool const has_weights = stage.size() > block_size;
  int held = 0;
  int waiting = 0;
  int peak = 0;
  for (std::size_t const kind : occupants(stage)) {
    if (kind == forward_0 || kind == forward_1) ++held;
    if (kind == weight_1) --held;
    if (is_gradient(kind)) ++waiting;
    if (kind > weight_0 && !has_weights && waiting > 0) {
      --held;
      --waiting;
    }
    peak = std::max(peak, held);
  }
  return peak;
}

struct SlotTask {
  int slot;
  std::size_t stage;
  std::size_t kind;
  std::size_t index;  ///< position among the stage's tasks of the kind

  friend auto operator<=>(SlotTask const&, SlotTask const&) = default;
};

std::vector<SlotTask> in_order(Slots const& slots) {
  std::vector<SlotTask> tasks;
  for (std::size_t stage = 0; stage < slots.size(); ++stage) {
    for (std::size_t kind = 0; kind < slots[stage].size(); ++kind) {
      for (std::size_t index = 0; index < slots[stage][kind].size(); ++index) {
        tasks.push_back({slots[stage][kind][index], stage, kind, index});
      }
    }
  }
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

/// The slot of what the task needs last of other stages, of its microbatch on its stage, and of the
/// microbatch before; -1 if it needs nothing.
int needed_slot(Slots const& slots, SlotTask const& task) {
  auto const& stage = slots[task.stage];
  int needed = -1;
  auto const need = [&](int slot) { needed = std::max(needed, slot); };
  bool const from_above = task.kind == forward_0 || task.kind == gradient_1;
  bool const from_below = task.kind == forward_1 || task.kind == gradient_0;
  if (from_above && task.stage > 0) need(slots[task.stage - 1][task.kind][task.index]);
  if (from_below && task.stage + 1 < slots.size()) {
    need(slots[task.stage + 1][task.kind][task.index]);
  }
  if (task.kind > forward_0 && task.kind < block_size) need(stage[task.kind - 1][task.index]);
  if (task.index > 0) need(stage[task.kind][task.index - 1]);
  return needed;
}

/// The slot of the n-th gradient of a stage, of both chunks.
int slot_of_gradient(StageSlots const& stage, std::size_t n) {
  std::vector<int> gradients = stage[gradient_1];
  gradients.insert(gradients.end(), stage[gradient_0].begin(), stage[gradient_0].end());
  auto const nth = gradients.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(gradients.begin(), nth, gradients.end());
  return *nth;
}

/// Runs each task as early as its dependencies and its stage's order allow, one slot each.
void squeeze(Slots& slots) {
  std::vector<int> free(slots.size());  // the next slot of each stage
  for (SlotTask const& task : in_order(slots)) {
    int const slot = std::max(needed_slot(slots, task) + 1, free[task.stage]);
    slots[task.stage][task.kind][task.index] = slot;
    free[task.stage] = slot + 1;
  }
}

/// The tasks that may move: all of warm-up and cool-down, with weight gradients in slots of their
/// own; or only those of the cool-down, past weight gradients.
enum class Reorder { with_weights, without_weights };

/// Moves a task to the first free slot that its dependencies allow, unless its stage's peak then
/// exceeds `most_held`.
void move_earlier(Slots& slots,
                  std::vector<bool> const& is_occupied,
                  SlotTask const& task,
                  int most_held) {
  StageSlots& stage = slots[task.stage];
  int needed = needed_slot(slots, task);
  if (task.kind == weight_1) needed = std::max(needed, slot_of_gradient(stage, task.index));
  for (int slot = needed + 1; slot < task.slot; ++slot) {
    if (is_occupied[static_cast<std::size_t>(slot)]) continue;
    stage[task.kind][task.index] = slot;
    if (peak_of(stage) <= most_held) return;
  }
  stage[task.kind][task.index] = task.slot;
}

void reorder(Slots& slots, Reorder how) {
  if (how == Reorder::with_weights) {
    for (StageSlots& stage : slots) add_weights(stage, false);
  }
  int most_held = 0;
  for (StageSlots const& stage : slots) most_held = std::max(most_held, peak_of(stage));
  std::vector<std::vector<bool>> is_occupied(slots.size());
  for (std::size_t stage = 0; stage < slots.size(); ++stage) {
    is_occupied[stage].resize(static_cast<std::size_t>(last_slot(slots[stage])) + 1);
  }
  std::size_t const last_index = slots[0][forward_0].size() - 1;
  enum class Phase { warm_up, steady, cool_down } phase = Phase::warm_up;
  for (SlotTask const& task : in_order(slots)) {
    // The steady state is from the first gradient at the start of the model to the last forward.
    if (phase == Phase::warm_up && task.kind == gradient_0 && task.stage == 0)
      phase = Phase::steady;
    bool may_move =
        phase == Phase::cool_down || (phase == Phase::warm_up && how == Reorder::with_weights);
    if (phase == Phase::steady && task.kind == forward_0 && task.index == last_index) {
      phase = Phase::cool_down;
    }
    if (may_move) move_earlier(slots, is_occupied[task.stage], task, most_held);
    is_occupied[task.stage][static_cast<std::size_t>(slots[task.stage][task.kind][task.index])] =
        true;
  }
  if (how == Reorder::without_weights) {
    for (StageSlots& stage : slots) add_weights(stage, false);
  }
  squeeze(slots);
  for (StageSlots& stage : slots) stage.resize(block_size);
}

ChunkRun run_of(SlotTask const& task) {
  auto const index = MicrobatchId::of_index(task.index);
  switch (static_cast<Kind>(task.kind)) {
    case forward_0:
      return {Pass::forward, index, ChunkId{0}};
    case forward_1:
      return {Pass::forward, index, ChunkId{1}};
    case gradient_1:
      return {Pass::input_gradient, index, ChunkId{1}};
    case gradient_0:
      return {Pass::input_gradient, index, ChunkId{0}};
    case weight_1:
      return {Pass::weight_gradient, index, ChunkId{1}};
    case weight_0:
      break;
  }
  return {Pass::weight_gradient, index, ChunkId{0}};
}

PipelineOrder order_of_block(int stages,
                             int microbatches,
                             std::vector<std::array<int, 4>> const& block) {
  Slots slots;
  for (auto const& first : block) {
    StageSlots& stage = slots.emplace_back();
    for (int const slot : first) {
      auto& row = stage.emplace_back();
      for (int k = 0; k < microbatches; ++k) row.push_back(slot + interval * k);
    }
  }
  reorder(slots, Reorder::with_weights);
  reorder(slots, Reorder::without_weights);
  for (StageSlots& stage : slots) add_weights(stage, true);
  PipelineOrder order{v_placement(stages), microbatches, {}};
  order.stages.resize(slots.size());
  for (SlotTask const& task : in_order(slots)) {
    order.stages[task.stage].push_back({.run = run_of(task)});
  }
  return order;
}

}  // namespace

PipelineOrder v_half_order(int stages, int microbatches) {
  int const p = stages;
  int const extra = p % 2 == 0 ? 3 : 0;  // so that no two tasks of a stage share a slot
  std::vector<std::array<int, 4>> block;
  block.reserve(static_cast<std::size_t>(p));
  for (int r = 0; r < p; ++r) {
    block.push_back({2 * r, 3 * p - 2 - r, 3 * p + extra - 1 + 2 * r, 6 * p + extra - 2 - r});
  }
  return order_of_block(stages, microbatches, block);
}

PipelineOrder v_min_order(int stages, int microbatches) {
  int const p = stages;
  int const extra = p % 3 == 0 ? 2 : 0;  // likewise
  std::vector<std::array<int, 4>> block;
  block.reserve(static_cast<std::size_t>(p));
  for (int r = 0; r < p; ++r) {
    block.push_back({r, 2 * p - 1 - r, 2 * p + extra + r, 4 * p + extra - 1 - r});
  }
  return order_of_block(stages, microbatches, block);
}

}  // namespace stagecraft
