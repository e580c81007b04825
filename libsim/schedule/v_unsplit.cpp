#include "libsim/schedule/v_unsplit.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "libsim/schedule/slot_grid.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view unsplit_letters = "FfBbWw";

/// The block of each rank, by walking one microbatch through the V: a slot for each forward, two
/// for each whole backward, and after every third backward three slots for other microbatches.
std::vector<SlotBlock> blocks_of(int stages) {
  std::vector<std::array<int, 6>> slots(static_cast<std::size_t>(stages));
  int now = 0;
  for (auto& rank : slots) rank[0] = ++now;
  for (auto rank = slots.rbegin(); rank != slots.rend(); ++rank) (*rank)[1] = ++now;
  now += stages % 3 == 0 ? 4 : 1;
  int backwards = (3 - (stages + 2) % 3) % 3;
  auto const put_backward = [&](std::array<int, 6>& rank, std::size_t gradient) {
    rank.at(gradient) = now;
    rank.at(gradient + 2) = now + 1;
    now += 2;
    if (++backwards < 3) return;
    backwards = 0;
    now += 3;
  };
  for (auto& rank : slots) put_backward(rank, 2);
  for (auto rank = slots.rbegin(); rank != slots.rend(); ++rank) put_backward(*rank, 3);
  std::vector<SlotBlock> blocks;
  blocks.reserve(slots.size());
  for (auto const& rank : slots) {
    blocks.push_back({rank[0] % block_slots, rank[1] % block_slots, rank[2] % block_slots,
                      rank[3] % block_slots, rank[4] % block_slots, rank[5] % block_slots});
  }
  return blocks;
}

/// Moves the tasks of a grid to earlier slots, slot by slot over all ranks.
class Mover {
 public:
  Mover(SlotGrid& grid, int microbatches) : grid_{grid}, ranks_(grid.size()) {
    for (std::size_t rank = 0; rank < grid.size(); ++rank) {
      for (auto& slots : ranks_[rank].slots) slots.reserve(static_cast<std::size_t>(microbatches));
      int held = 0;
      for (char const letter : grid[rank]) {
        if (letter == 'F' || letter == 'f') ++held;
        if (letter == 'W' || letter == 'w') --held;
        ranks_[rank].held.push_back(held);
        peak_ = std::max(peak_, held);
      }
    }
  }

  void run() {
    for (std::size_t slot = 0; slot < grid_.front().size(); ++slot) {
      for (std::size_t rank = 0; rank < grid_.size(); ++rank) {
        if (grid_[rank][slot] != ' ') move(rank, slot);
      }
    }
  }

 private:
  struct Rank {
    std::array<std::vector<std::size_t>, 6> slots;  ///< by letter, of each microbatch
    std::vector<int> held;                          ///< chunks, after each slot
  };

  /// The first slot after what the rank's next task of `letter` needs.
  std::size_t first_allowed(std::size_t rank, char letter) const {
    std::size_t const microbatch = slots_of(rank, letter).size();
    std::size_t first = 0;
    auto const after = [&](std::size_t there, char needed) {
      first = std::max(first, slots_of(there, needed)[microbatch] + 1);
    };
    bool const is_last = rank + 1 == grid_.size();
    if (microbatch > 0) first = slots_of(rank, letter)[microbatch - 1] + 1;
    // A gradient is there when its whole backward has ended, with W.
    if (letter == 'W') after(rank, 'B');
    if (letter == 'w') after(rank, 'b');
    if (letter == 'F' && rank > 0) after(rank - 1, 'F');
    if (letter == 'f') after(is_last ? rank : rank + 1, is_last ? 'F' : 'f');
    if (letter == 'B') after(rank == 0 ? rank : rank - 1, rank == 0 ? 'f' : 'W');
    if (letter == 'b') after(is_last ? rank : rank + 1, is_last ? 'W' : 'w');
    return first;
  }

  std::vector<std::size_t> const& slots_of(std::size_t rank, char letter) const {
    return ranks_[rank].slots.at(unsplit_letters.find(letter));
  }

  void move(std::size_t rank, std::size_t from) {
    std::string& row = grid_[rank];
    char const letter = row[from];
    std::size_t to = first_allowed(rank, letter);
    std::vector<int>& held = ranks_[rank].held;
    if (letter == 'F' || letter == 'f') {
      // As far back as the rank has memory for one more.
      std::size_t place = from;
      while (place > to && held[place - 1] < peak_) --place;
      to = place;
    }
    while (to < from && row[to] != ' ') ++to;
    if (letter == 'B' || letter == 'b') {
      while (to < from && (row[to] != ' ' || row[to + 1] != ' ')) ++to;
    }
    ranks_[rank].slots.at(unsplit_letters.find(letter)).push_back(to);
    if (to == from) return;
    row[to] = letter;
    row[from] = ' ';
    int const change = letter == 'F' || letter == 'f' ? 1 : letter == 'W' || letter == 'w' ? -1 : 0;
    for (std::size_t slot = to; slot < from; ++slot) held[slot] += change;
  }

  SlotGrid& grid_;
  std::vector<Rank> ranks_;
  int peak_ = 0;
};

}  // namespace

PipelineOrder v_unsplit_order(int stages, int microbatches) {
  SlotGrid grid = repeated_blocks(blocks_of(stages), microbatches);
  Mover{grid, microbatches}.run();
  return order_of_grid(grid, microbatches, GridBackward::whole);
}

}  // namespace stagecraft
