#include "libsim/schedule/generators/grid_moves.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <string_view>

namespace stagecraft {

namespace {

constexpr std::string_view grid_letters = "FfBbWw";
constexpr char free_slot = ' ';

std::size_t index_of(char letter) { return grid_letters.find(letter); }
bool is_forward(char letter) { return letter == 'F' || letter == 'f'; }
bool is_weight(char letter) { return letter == 'W' || letter == 'w'; }
int change_of(char letter) { return is_forward(letter) ? 1 : is_weight(letter) ? -1 : 0; }

using Counts = std::array<int, 6>;  ///< by letter

/// The slots of the tasks that have been placed, by stage and letter, of each microbatch.
class PlacedTasks {
 public:
  explicit PlacedTasks(std::size_t stages) : slots_(stages) {}

  int count(std::size_t stage, char letter) const {
    return static_cast<int>(slots_[stage].at(index_of(letter)).size());
  }
  void add(std::size_t stage, char letter, int slot) {
    slots_[stage].at(index_of(letter)).push_back(slot);
  }
  /// The slot of microbatch k; -1 before it is placed.
  int slot(std::size_t stage, char letter, int k) const {
    return k < count(stage, letter)
               ? slots_[stage].at(index_of(letter))[static_cast<std::size_t>(k)]
               : -1;
  }

 private:
  std::vector<std::array<std::vector<int>, 6>> slots_;
};

/// The task of another stage, or of the same one at the ends of the V, that a task needs; `is_any`
/// is false if it needs none.
struct Needed {
  bool is_any = false;
  bool is_here = false;
  std::size_t stage = 0;
  char letter = free_slot;
};

Needed needed_by(char letter, std::size_t stage, std::size_t stages) {
  bool const is_last = stage + 1 == stages;
  switch (letter) {
    case 'F':
      return stage == 0 ? Needed{} : Needed{true, false, stage - 1, 'F'};
    case 'f':
      return is_last ? Needed{true, true, stage, 'F'} : Needed{true, false, stage + 1, 'f'};
    case 'B':
      return stage == 0 ? Needed{true, true, stage, 'f'} : Needed{true, false, stage - 1, 'B'};
    case 'b':
      return is_last ? Needed{true, true, stage, 'B'} : Needed{true, false, stage + 1, 'b'};
    case 'W':
      return {true, true, stage, 'B'};
    default:
      return {true, true, stage, 'b'};
  }
}

std::size_t length_of(SlotGrid const& grid) { return grid.front().size(); }

int peak_of_stage(std::string const& row) {
  int held = 0;
  int peak = 0;
  for (char const letter : row) {
    held += change_of(letter);
    peak = std::max(peak, held);
  }
  return peak;
}

/// Writes into a row from a slot on.
class RowWriter {
 public:
  RowWriter(std::string& row, std::size_t slot) : row_{row}, slot_{slot} {}
  /// Writes the letter if `count` is above 0, which it then lowers; goes on to the next slot.
  void put(char letter, int& count) {
    if (count > 0) {
      --count;
      if (slot_ < row_.size()) {
        row_[slot_] = letter;
      } else {
        is_full_ = true;
      }
    }
    ++slot_;
  }
  bool is_full() const { return is_full_; }

 private:
  std::string& row_;
  std::size_t slot_;
  bool is_full_ = false;
};

/// Writes the warm-up of a stage whose tasks before the first `b` were taken out and counted.
bool write_warm_up(std::string& row, int stage, int stages, int peak, int m, Counts left) {
  int up_first = std::min({stage + 1, peak / 2, m, left[index_of('f')]});
  int down_first = std::min({peak - std::min({stage + 1, peak / 2, m}), m, left[index_of('F')]});
  int down_later = left[index_of('F')] - down_first;
  int up_later = left[index_of('f')] - up_first;
  int gradients = left[index_of('B')];
  int weights = left[index_of('W')];
  RowWriter writer{row, static_cast<std::size_t>(stage)};
  for (int k = 0; k < 2 * (stages - 1 - stage); ++k) writer.put('F', down_first);
  for (int k = 0; k <= stage; ++k) {
    writer.put('F', down_first);
    writer.put('f', up_first);
  }
  down_later += down_first;
  up_later += up_first;
  while (down_later > 0 || up_later > 0 || gradients > 0 || weights > 0) {
    writer.put('B', gradients);
    writer.put('W', weights);
    bool const is_up = up_later > 0;
    writer.put(is_up ? 'f' : 'F', is_up ? up_later : down_later);
  }
  return !writer.is_full();
}

/// Clears the last tasks of `letter`, at most `most`, and returns how many.
int clear_last(std::string& row, char letter, int most) {
  int count = 0;
  for (auto slot = row.rbegin(); slot != row.rend() && count < most; ++slot) {
    if (*slot != letter) continue;
    *slot = free_slot;
    ++count;
  }
  return count;
}

bool set_every_second(std::string& row, char letter, int last, int count, bool only_free) {
  for (int k = 0; k < count; ++k) {
    int const slot = last - 2 * k;
    if (slot < 0 || slot >= static_cast<int>(row.size())) return false;
    char& there = row[static_cast<std::size_t>(slot)];
    if (only_free && there != free_slot) return false;
    there = letter;
  }
  return true;
}

/// Runs the missing weight gradients of a row in its free slots, those of chunk 1 first, and then
/// after its end.
void add_missing_weights(std::string& row) {
  auto const last = row.find_last_of("Ww");
  int down = 0;
  int up = 0;
  for (std::size_t slot = 0; slot < row.size(); ++slot) {
    char& letter = row[slot];
    down += letter == 'B' ? 1 : letter == 'W' ? -1 : 0;
    up += letter == 'b' ? 1 : letter == 'w' ? -1 : 0;
    bool const is_behind = last == std::string::npos || slot > last;
    if (letter != free_slot || !is_behind) continue;
    if (down > 0) {
      letter = 'W';
      --down;
    } else if (up > 0) {
      letter = 'w';
      --up;
    }
  }
  row.append(static_cast<std::size_t>(std::max(down, 0)), 'W');
  row.append(static_cast<std::size_t>(std::max(up, 0)), 'w');
}

void even_out(SlotGrid& grid) {
  std::size_t longest = 0;
  for (std::string const& row : grid) longest = std::max(longest, row.size());
  for (std::string& row : grid) row.resize(longest, free_slot);
}

}  // namespace

int peak_of(SlotGrid const& grid) {
  int peak = 0;
  for (std::string const& row : grid) peak = std::max(peak, peak_of_stage(row));
  return peak;
}

bool squeeze(SlotGrid& grid, int m) {
  std::size_t const stages = grid.size();
  SlotGrid squeezed(stages, std::string(length_of(grid), free_slot));
  PlacedTasks placed{stages};
  std::vector<int> next(stages);
  auto const place = [&](std::size_t stage, char letter) {
    int const k = placed.count(stage, letter);
    if (k >= m) return false;
    int slot = next[stage];
    Needed const needed = needed_by(letter, stage, stages);
    if (needed.is_any && !is_weight(letter)) {
      int const there = placed.slot(needed.stage, needed.letter, k);
      if (there < 0) return false;
      if (!needed.is_here) slot = std::max(slot, there + 1);
    }
    if (static_cast<std::size_t>(slot) >= squeezed[stage].size()) return false;
    squeezed[stage][static_cast<std::size_t>(slot)] = letter;
    placed.add(stage, letter, slot);
    next[stage] = slot + 1;
    return true;
  };
  for (std::size_t slot = 0; slot < length_of(grid); ++slot) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      char const letter = grid[stage][slot];
      bool const goes_down = letter == 'F' || letter == 'B' || letter == 'W';
      if (goes_down && !place(stage, letter)) return false;
    }
    for (std::size_t stage = stages; stage-- > 0;) {
      char const letter = grid[stage][slot];
      bool const goes_up = letter == 'f' || letter == 'b' || letter == 'w';
      if (goes_up && !place(stage, letter)) return false;
    }
  }
  auto const length = static_cast<std::size_t>(*std::max_element(next.begin(), next.end()));
  for (std::string& row : squeezed) row.resize(length, free_slot);
  grid = std::move(squeezed);
  return true;
}

bool reorganise_warm_up(SlotGrid& grid, int m) {
  int const stages = static_cast<int>(grid.size());
  int const peak = std::min(peak_of(grid), 2 * stages);
  for (int stage = 0; stage < stages; ++stage) {
    std::string& row = grid[static_cast<std::size_t>(stage)];
    Counts counts{};
    for (char& letter : row) {
      if (letter == 'b') break;
      if (letter == 'w') return false;
      if (letter != free_slot) ++counts.at(index_of(letter));
      letter = free_slot;
    }
    if (!write_warm_up(row, stage, stages, peak, m, counts)) return false;
  }
  return true;
}

bool reorganise_cool_down(SlotGrid& grid, int m) {
  int const stages = static_cast<int>(grid.size());
  int const peak = peak_of(grid);
  int const most_up = std::min((peak + 1) / 2, m);
  int const most_down = std::min(peak - most_up, m);
  int start = -1;
  for (int stage = 0; stage < stages; ++stage) {
    std::string& row = grid[static_cast<std::size_t>(stage)];
    if (stage == 0) start = static_cast<int>(row.rfind('f'));
    int const down = clear_last(row, 'B', std::min(stage + 1, most_down));
    int const up = clear_last(row, 'b', most_up);
    int down_weights = 0;
    int up_weights = 0;
    for (auto slot = row.rbegin(); slot != row.rend(); ++slot) {
      if (down_weights >= down && up_weights >= up && down_weights + up_weights >= peak) break;
      if (!is_weight(*slot)) continue;
      ++(*slot == 'W' ? down_weights : up_weights);
      *slot = free_slot;
    }
    if (!set_every_second(row, 'b', start - stage + 2 * stages, up, true)) return false;
    if (!set_every_second(row, 'B', start + 1 + stage, down, false)) return false;
  }
  for (std::string& row : grid) add_missing_weights(row);
  even_out(grid);
  return squeeze(grid, m);
}

void cut(SlotGrid& grid, int m) {
  for (std::string& row : grid) {
    Counts counts{};
    for (char& letter : row) {
      if (letter != free_slot && counts.at(index_of(letter))++ >= m) letter = free_slot;
    }
  }
}

void put_off_weights(SlotGrid& grid, int peak) {
  int least = peak;
  for (std::string const& row : grid) least = std::min(least, peak_of_stage(row));
  for (std::string& row : grid) {
    int const more = peak - peak_of_stage(row);
    std::string put_off;
    for (char& letter : row) {
      if (static_cast<int>(put_off.size()) >= more) break;
      if (!is_weight(letter)) continue;
      put_off += letter;
      letter = free_slot;
    }
    put_off.resize(static_cast<std::size_t>(peak - least), free_slot);
    row += put_off;
  }
}

void fill_free_slots(SlotGrid& grid, int m) {
  std::size_t const stages = grid.size();
  std::size_t const length = length_of(grid);
  int const peak = peak_of(grid);
  PlacedTasks placed{stages};
  std::vector<int> held(stages);
  auto const note = [&](std::size_t stage, char letter, std::size_t slot) {
    placed.add(stage, letter, static_cast<int>(slot));
    held[stage] += change_of(letter);
  };
  auto const can_run = [&](std::size_t stage, char letter, std::size_t slot) {
    int const k = placed.count(stage, letter);
    Needed const needed = needed_by(letter, stage, stages);
    if (!needed.is_any) return true;
    int const there = placed.slot(needed.stage, needed.letter, k);
    return there >= 0 && (needed.is_here || there < static_cast<int>(slot));
  };
  // For each letter, the first task after the slot that can run in it.
  auto const fill = [&](std::size_t stage, std::size_t slot) {
    std::string& row = grid[stage];
    std::array<bool, 6> was_seen{};
    auto left = std::count_if(grid_letters.begin(), grid_letters.end(),
                              [&](char letter) { return placed.count(stage, letter) < m; });
    int change = 0;
    int most = 0;
    for (std::size_t from = slot + 1; from < length && left > 0; ++from) {
      char const letter = row[from];
      int const most_before = most;
      change += change_of(letter);
      most = std::max(most, change);
      if (letter == free_slot || was_seen.at(index_of(letter))) continue;
      was_seen.at(index_of(letter)) = true;
      --left;
      bool const grows = is_forward(letter) && held[stage] + most_before >= peak;
      if (grows || !can_run(stage, letter, slot)) continue;
      row[slot] = letter;
      row[from] = free_slot;
      note(stage, letter, slot);
      return;
    }
  };
  for (std::size_t slot = 0; slot < length; ++slot) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      if (grid[stage][slot] == free_slot) {
        fill(stage, slot);
      } else {
        note(stage, grid[stage][slot], slot);
      }
    }
  }
}

bool relabel_weights(SlotGrid& grid, int m) {
  for (std::string& row : grid) {
    Counts counts{};
    std::deque<char> waiting;
    for (char& letter : row) {
      if (letter == free_slot) continue;
      ++counts.at(index_of(letter));
      if (letter == 'B') waiting.push_back('W');
      if (letter == 'b') waiting.push_back('w');
      if (!is_weight(letter)) continue;
      if (waiting.empty()) return false;
      letter = waiting.front();
      waiting.pop_front();
    }
    if (std::any_of(counts.begin(), counts.end(), [&](int count) { return count != m; })) {
      return false;
    }
  }
  return true;
}

bool is_legal(SlotGrid const& grid, int m) {
  std::size_t const stages = grid.size();
  PlacedTasks placed{stages};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (std::size_t slot = 0; slot < grid[stage].size(); ++slot) {
      char const letter = grid[stage][slot];
      if (letter != free_slot) placed.add(stage, letter, static_cast<int>(slot));
    }
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (char const letter : grid_letters) {
      if (placed.count(stage, letter) != m) return false;
      Needed const needed = needed_by(letter, stage, stages);
      for (int k = 0; needed.is_any && k < m; ++k) {
        int const there = placed.slot(needed.stage, needed.letter, k);
        if (there < 0 || there >= placed.slot(stage, letter, k)) return false;
      }
    }
  }
  return true;
}

}  // namespace stagecraft
