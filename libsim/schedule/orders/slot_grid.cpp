#include "libsim/schedule/orders/slot_grid.hpp"

#include <cctype>
#include <map>
#include <stdexcept>
#include <utility>

namespace stagecraft {

namespace {

/// The first slot from `from` on that is `residue` modulo block_slots.
int first_slot(int from, int residue) {
  return from + ((residue - from) % block_slots + block_slots) % block_slots;
}

void repeat(std::string& row, char letter, int first, int times) {
  auto slot = static_cast<std::size_t>(first);
  for (int k = 0; k < times; ++k, slot += block_slots) row[slot] = letter;
}

Pass pass_of(char letter, GridBackward backward) {
  switch (std::toupper(static_cast<unsigned char>(letter))) {
    case 'F':
      return Pass::forward;
    case 'B':
      return backward == GridBackward::whole ? Pass::backward : Pass::input_gradient;
    default:
      return Pass::weight_gradient;
  }
}

}  // namespace

SlotGrid repeated_blocks(std::vector<SlotBlock> const& blocks, int microbatches) {
  std::size_t const stages = blocks.size();
  SlotGrid grid(
      stages,
      std::string((4 * stages + static_cast<std::size_t>(microbatches) + 1) * block_slots, ' '));
  int slot = block_slots;
  auto const down = [&](char letter, char weight, int SlotBlock::*place, int SlotBlock::*after) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      slot = first_slot(slot, blocks[stage].*place);
      repeat(grid[stage], letter, slot++, microbatches);
      if (after != nullptr) {
        repeat(grid[stage], weight, first_slot(slot, blocks[stage].*after), microbatches);
      }
    }
  };
  auto const up = [&](char letter, char weight, int SlotBlock::*place, int SlotBlock::*after) {
    for (std::size_t stage = stages; stage-- > 0;) {
      slot = first_slot(slot, blocks[stage].*place);
      repeat(grid[stage], letter, slot++, microbatches);
      if (after != nullptr) {
        repeat(grid[stage], weight, first_slot(slot, blocks[stage].*after), microbatches);
      }
    }
  };
  down('F', ' ', &SlotBlock::forward_down, nullptr);
  up('f', ' ', &SlotBlock::forward_up, nullptr);
  down('B', 'W', &SlotBlock::gradient_down, &SlotBlock::weight_down);
  up('b', 'w', &SlotBlock::gradient_up, &SlotBlock::weight_up);
  return grid;
}

PipelineOrder order_of_grid(SlotGrid const& grid, int microbatches, GridBackward backward) {
  PipelineOrder order{v_placement(static_cast<int>(grid.size())), microbatches, {}};
  for (std::string const& row : grid) {
    auto& tasks = order.stages.emplace_back();
    std::map<char, MicrobatchId> next_of;  // by letter
    for (char const letter : row) {
      if (letter == ' ') continue;
      Pass const pass = pass_of(letter, backward);
      if (pass == Pass::weight_gradient && backward == GridBackward::whole) continue;
      bool const is_chunk_1 = letter == 'f' || letter == 'B' || letter == 'W';
      MicrobatchId& microbatch = next_of[letter];
      tasks.push_back({.run = {pass, microbatch, ChunkId{is_chunk_1 ? 1 : 0}}});
      microbatch = next(microbatch);
    }
  }
  return order;
}

}  // namespace stagecraft
