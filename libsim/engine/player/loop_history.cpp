#include "libsim/engine/player/loop_history.hpp"

#include <algorithm>

namespace stagecraft {

LoopHistory::LoopHistory(std::vector<std::int32_t> const& widths, int loops)
    : set_(static_cast<std::size_t>(loops) + 1) {
  begin_.reserve(widths.size() + 1);
  begin_.push_back(0);
  for (std::int32_t const width : widths) {
    begin_.push_back(begin_.back() + static_cast<std::size_t>(width));
  }
  // The values are not set to zero: an iteration that repeats early never touches most of them.
  values_ = std::make_unique_for_overwrite<SimTime[]>(set_.size() * begin_.back());
}

std::optional<LoopHistory::Repetition> LoopHistory::repetition(int border) const {
  // Periods are cycle lengths of the schedule's critical circuits, in runs of the loop. Long ones
  // are rare, and each costs a comparison at every border.
  constexpr int longest = 16;
  std::size_t const width = begin_.back();
  SimTime const* const state = values_.get() + static_cast<std::size_t>(border) * width;
  for (int loops = 1; loops <= std::min(border, longest); ++loops) {
    SimTime const* const earlier = state - static_cast<std::size_t>(loops) * width;
    SimTime const shift = state[0] - earlier[0];
    bool const is_same = std::equal(state, state + width, earlier,
                                    [&](SimTime now, SimTime then) { return now - then == shift; });
    if (is_same) return Repetition{loops, shift};
  }
  return std::nullopt;
}

}  // namespace stagecraft
