#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/generators/grid_moves.hpp"
#include "libsim/schedule/orders/order_timeline.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// How the block of a stage shifts to the next: tasks that go down the V by `down` slots, those
/// that go up by one slot back.
constexpr std::array<int, 5> shifts{1, 2, 3, 4, 5};

int modulo_block(int slot) { return (slot + block_slots) % block_slots; }

/// Puts each weight gradient into the first free slot after its input gradient. False if two tasks
/// share a slot.
bool place_weights(SlotBlock& block) {
  std::array<bool, block_slots> is_taken{};
  for (int const slot :
       {block.forward_down, block.forward_up, block.gradient_down, block.gradient_up}) {
    if (is_taken.at(static_cast<std::size_t>(slot))) return false;
    is_taken.at(static_cast<std::size_t>(slot)) = true;
  }
  auto const first_free = [&](int slot) {
    while (is_taken.at(static_cast<std::size_t>(slot))) slot = modulo_block(slot + 1);
    is_taken.at(static_cast<std::size_t>(slot)) = true;
    return slot;
  };
  block.weight_down = first_free(block.gradient_down);
  block.weight_up = first_free(block.gradient_up);
  return true;
}

/// The blocks of all stages; empty if two tasks of a stage share a slot.
std::vector<SlotBlock> blocks_from(
    SlotBlock first, int stages, int shift, int later_shift, int shifted) {
  std::vector<SlotBlock> blocks{first};
  for (int stage = 1; stage < stages; ++stage) {
    int const down = stage <= shifted ? shift : later_shift;
    SlotBlock next = blocks.back();
    next.forward_down = modulo_block(next.forward_down + down);
    next.gradient_down = modulo_block(next.gradient_down + down);
    next.forward_up = modulo_block(next.forward_up - 1);
    next.gradient_up = modulo_block(next.gradient_up - 1);
    if (!place_weights(next)) return {};
    blocks.push_back(next);
  }
  return blocks;
}

std::vector<SlotBlock> first_blocks() {
  std::vector<SlotBlock> blocks;
  for (int up = 1; up < block_slots; ++up) {
    for (int down_gradient = 1; down_gradient < block_slots; ++down_gradient) {
      for (int up_gradient = 1; up_gradient < block_slots; ++up_gradient) {
        SlotBlock block{0, up, down_gradient, up_gradient, 0, 0};
        if (place_weights(block)) blocks.push_back(block);
      }
    }
  }
  return blocks;
}

/// The result of repeating a block.
struct Candidate {
  std::optional<SlotGrid> grid;  ///< none if the block is of no use
  int peak = 0;                  ///< chunks that its fullest stage would hold
};

Candidate candidate_of(std::vector<SlotBlock> const& blocks, int m, int most_held) {
  int const stages = static_cast<int>(blocks.size());
  // The warm-up is laid out for microbatches that fill the pipeline; microbatches from m on are
  // cut.
  int const laid_out = std::max(m, 2 * stages);
  SlotGrid grid = repeated_blocks(blocks, laid_out);
  int peak = peak_of(grid);
  if ((m == laid_out && peak > most_held) || peak > 2 * stages) return {std::nullopt, peak};
  if (!squeeze(grid, laid_out) || !reorganise_warm_up(grid, laid_out) || !squeeze(grid, laid_out) ||
      peak_of(grid) > peak) {
    return {std::nullopt, peak};
  }
  if (m < laid_out) {
    int const held = peak_of(grid);
    cut(grid, m);
    if (m <= stages && 2 * m <= most_held) put_off_weights(grid, std::min(2 * stages, held));
    if (!squeeze(grid, m)) return {std::nullopt, peak};
    peak = peak_of(grid);
    if (peak > most_held) return {std::nullopt, peak};
  }
  if (!reorganise_cool_down(grid, m)) return {std::nullopt, peak};
  fill_free_slots(grid, m);
  if (!relabel_weights(grid, m) || peak_of(grid) > peak || !is_legal(grid, m)) {
    return {std::nullopt, peak};
  }
  return {grid, peak_of(grid)};
}

}  // namespace

PipelineOrder v_auto_order(int stages,
                           int microbatches,
                           ChunkCosts const& costs,
                           int memory_limit) {
  if (stages < 2) throw ScheduleError{"pipeline stages of v_auto", "'1'", "at least 2"};
  int const most_held = std::min(2 * stages, memory_limit);
  std::optional<PipelineOrder> best;
  SimTime least{0};
  auto const consider = [&](SlotGrid const& grid) {
    PipelineOrder order = order_of_grid(grid, microbatches, GridBackward::split);
    SimTime const span = span_of(play_order(order, costs));
    if (best && span >= least) return;
    best = std::move(order);
    least = span;
  };
  for (SlotBlock const& first : first_blocks()) {
    for (std::size_t shift = 0; shift < shifts.size(); ++shift) {
      for (std::size_t later = 0; later <= shift; ++later) {
        for (int shifted = 1; shifted < stages; ++shifted) {
          auto const blocks =
              blocks_from(first, stages, shifts.at(shift), shifts.at(later), shifted);
          if (blocks.empty()) continue;
          Candidate const candidate = candidate_of(blocks, microbatches, most_held);
          if (candidate.peak > most_held) break;
          if (candidate.grid) consider(*candidate.grid);
        }
      }
    }
  }
  if (!best) {
    throw ScheduleError{"memory limit of v_auto", "'" + std::to_string(memory_limit) + "' chunks",
                        "more, no block stays within it"};
  }
  return std::move(*best);
}

}  // namespace stagecraft
