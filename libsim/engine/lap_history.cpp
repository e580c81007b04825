#include "libsim/engine/lap_history.hpp"

#include <algorithm>

namespace stagecraft {

LapHistory::LapHistory(std::vector<std::int32_t> const& widths, int laps)
    : set_(static_cast<std::size_t>(laps) + 1) {
  begin_.reserve(widths.size() + 1);
  begin_.push_back(0);
  for (std::int32_t const width : widths) {
    begin_.push_back(begin_.back() + static_cast<std::size_t>(width));
  }
  // Not set to zero: a walk that repeats early never touches most of it.
  values_ = std::make_unique_for_overwrite<SimTime[]>(set_.size() * begin_.back());
}

std::optional<LapHistory::Repetition> LapHistory::repetition(int border) const {
  // Periods are cycle lengths of the schedule's critical circuits, in laps; long ones are rare, and
  // each costs a comparison at every border.
  constexpr int longest = 16;
  std::size_t const width = begin_.back();
  SimTime const* const state = values_.get() + static_cast<std::size_t>(border) * width;
  for (int laps = 1; laps <= std::min(border, longest); ++laps) {
    SimTime const* const earlier = state - static_cast<std::size_t>(laps) * width;
    SimTime const shift = state[0] - earlier[0];
    bool const is_same = std::equal(state, state + width, earlier,
                                    [&](SimTime now, SimTime then) { return now - then == shift; });
    if (is_same) return Repetition{laps, shift};
  }
  return std::nullopt;
}

}  // namespace stagecraft
