#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/slot_grid.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view unsplit_letters = "FfBbWw";

/// The block of each stage, by walking one microbatch through the V: a slot for each forward, two
/// for each whole backward, and after every third backward three slots for other microbatches.
std::vector<SlotBlock> blocks_of(int stages) {
  std::vector<std::array<int, 6>> slots(static_cast<std::size_t>(stages));
  int now = 0;
  for (auto& stage : slots) stage[0] = ++now;
  for (auto stage = slots.rbegin(); stage != slots.rend(); ++stage) (*stage)[1] = ++now;
  now += stages % 3 == 0 ? 4 : 1;
  int backwards = (3 - (stages + 2) % 3) % 3;
  auto const put_backward = [&](std::array<int, 6>& stage, std::size_t gradient) {
    stage.at(gradient) = now;
    stage.at(gradient + 2) = now + 1;
    now += 2;
    if (++backwards < 3) return;
    backwards = 0;
    now += 3;
  };
  for (auto& stage : slots) put_backward(stage, 2);
  for (auto stage = slots.rbegin(); stage != slots.rend(); ++stage) put_backward(*stage, 3);
  std::vector<SlotBlock> blocks;
  blocks.reserve(slots.size());
  for (auto const& stage : slots) {
    blocks.push_back({stage[0] % block_slots, stage[1] % block_slots, stage[2] % block_slots,
                      stage[3] % block_slots, stage[4] % block_slots, stage[5] % block_slots});
  }
  return blocks;
}

/// Moves the tasks of a grid to earlier slots, slot by slot over all stages.
class Mover {
 public:
  Mover(SlotGrid& grid, int microbatches) : grid_{grid}, stages_(grid.size()) {
    for (std::size_t stage = 0; stage < grid.size(); ++stage) {
      for (auto& slots : stages_[stage].slots)
        slots.reserve(static_cast<std::size_t>(microbatches));
      int held = 0;
      for (char const letter : grid[stage]) {
        if (letter == 'F' || letter == 'f') ++held;
        if (letter == 'W' || letter == 'w') --held;
        stages_[stage].held.push_back(held);
        peak_ = std::max(peak_, held);
      }
    }
  }

  void run() {
    for (std::size_t slot = 0; slot < grid_.front().size(); ++slot) {
      for (std::size_t stage = 0; stage < grid_.size(); ++stage) {
        if (grid_[stage][slot] != ' ') move(stage, slot);
      }
    }
  }

 private:
  struct Stage {
    std::array<std::vector<std::size_t>, 6> slots;  ///< by letter, of each microbatch
    std::vector<int> held;                          ///< chunks, after each slot
  };

  /// The first slot after what the stage's next task of `letter` needs.
  std::size_t first_allowed(std::size_t stage, char letter) const {
    std::size_t const microbatch = slots_of(stage, letter).size();
    std::size_t first = 0;
    auto const after = [&](std::size_t there, char needed) {
      first = std::max(first, slots_of(there, needed)[microbatch] + 1);
    };
    bool const is_last = stage + 1 == grid_.size();
    if (microbatch > 0) first = slots_of(stage, letter)[microbatch - 1] + 1;
    // A gradient is there when its whole backward has ended, with W.
    if (letter == 'W') after(stage, 'B');
    if (letter == 'w') after(stage, 'b');
    if (letter == 'F' && stage > 0) after(stage - 1, 'F');
    if (letter == 'f') after(is_last ? stage : stage + 1, is_last ? 'F' : 'f');
    if (letter == 'B') after(stage == 0 ? stage : stage - 1, stage == 0 ? 'f' : 'W');
    if (letter == 'b') after(is_last ? stage : stage + 1, is_last ? 'W' : 'w');
    return first;
  }

  std::vector<std::size_t> const& slots_of(std::size_t stage, char letter) const {
    return stages_[stage].slots.at(unsplit_letters.find(letter));
  }

  void move(std::size_t stage, std::size_t from) {
    std::string& row = grid_[stage];
    char const letter = row[from];
    std::size_t to = first_allowed(stage, letter);
    std::vector<int>& held = stages_[stage].held;
    if (letter == 'F' || letter == 'f') {
      // As far back as the stage has memory for one more.
      std::size_t place = from;
      while (place > to && held[place - 1] < peak_) --place;
      to = place;
    }
    while (to < from && row[to] != ' ') ++to;
    if (letter == 'B' || letter == 'b') {
      while (to < from && (row[to] != ' ' || row[to + 1] != ' ')) ++to;
    }
    stages_[stage].slots.at(unsplit_letters.find(letter)).push_back(to);
    if (to == from) return;
    row[to] = letter;
    row[from] = ' ';
    int const change = letter == 'F' || letter == 'f' ? 1 : letter == 'W' || letter == 'w' ? -1 : 0;
    for (std::size_t slot = to; slot < from; ++slot) held[slot] += change;
  }

  SlotGrid& grid_;
  std::vector<Stage> stages_;
  int peak_ = 0;
};

}  // namespace

PipelineOrder v_unsplit_order(int stages, int microbatches) {
  SlotGrid grid = repeated_blocks(blocks_of(stages), microbatches);
  Mover{grid, microbatches}.run();
  return order_of_grid(grid, microbatches, GridBackward::whole);
}

}  // namespace stagecraft
