#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/engine/player/loop_history.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The number of times that the steady-state loop has to be played: once it is found to repeat
/// itself (LoopHistory), its other runs are left out.
class SteadyState {
 public:
  /// `loops`: times that every stage runs the loop.
  explicit SteadyState(int loops) : loops_{loops} {}

  int loops() const { return loops_; }  ///< times that the loop is played
  int loops_left_out() const { return loops_left_out_; }
  SimTime time_left_out() const { return time_left_out_; }

  /// From here on pass() looks for a repetition, if `channels` can tell their state.
  template <class Channels>
  void search(Channels const& channels, std::size_t stages) {
    std::vector<std::int32_t> widths;
    widths.reserve(stages);
    for (std::size_t stage = 0; stage < stages; ++stage)
      widths.push_back(1 + channels.width(stage));
    history_.emplace(widths, loops_);
  }

  /// A stage passes a border of the loop.
  template <class Channels>
  void pass(std::size_t stage, int border, SimTime clock, Channels const& channels) {
    if (!history_) return;
    // Stages ahead of this border have begun runs that cannot be left out any more. This stage has
    // not begun its next run; to count one more for all is safe.
    begun_ = std::max(begun_, border + 1);
    auto const state = history_->state(stage, border);
    state.front() = clock;
    channels.write_state(stage, clock, state.subspan(1));
    if (!history_->is_complete_with(border)) return;
    auto const repetition = history_->repetition(border);
    if (!repetition) return;
    int const times = (loops_ - begun_) / repetition->loops;
    if (times <= 0) return;
    loops_left_out_ = times * repetition->loops;
    time_left_out_ = times * repetition->shift;
    loops_ -= loops_left_out_;
    history_.reset();
  }

 private:
  int loops_;
  int loops_left_out_ = 0;
  SimTime time_left_out_{0};
  int begun_ = 0;  ///< runs of the loop begun by the stage that is furthest
  std::optional<LoopHistory> history_;
};

}  // namespace stagecraft
