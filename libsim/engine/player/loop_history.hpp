#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// The times at which an iteration is at the borders of its steady-state loop, in search of a
/// steady state. Border j is the point at which the loop has run j times.
///
/// Let X(j) be the state of the iteration at border j: every stage's clock when it passes its j-th
/// border, and the times of messages that cross the border (sent and not yet waited for, and until
/// when the send streams are taken). If every component of X(j) is that of X(i), i < j, plus one
/// constant c, then everything after border j is what follows border i, c later. The reason: the
/// time of each event after a border follows, through one acyclic set of sums and maxima, from the
/// times of such events and from X. After i and after j these are the same equations, because the
/// events are the same up to the numbers of the microbatches. Sums with fixed durations and maxima
/// commute with adding c to all. (The borders need not be one moment: if an event before a border
/// waits for one after another stage's border, its time is part of X all the same.)
///
/// So the j - i runs of the loop between them repeat until its last run, each repetition taking c.
/// Any number of repetitions can be left out, with their time added to everything that follows. The
/// equations are those of a max-plus system, whose states become periodic in this way if their
/// graph is connected. The period can exceed one run of the loop.
class LoopHistory {
 public:
  /// `widths`: components of each stage. Borders are 0 to `loops`.
  LoopHistory(std::vector<std::int32_t> const& widths, int loops);

  /// The components of a stage's state at a border.
  std::span<SimTime> state(std::size_t stage, int border) {
    return {values_.get() + static_cast<std::size_t>(border) * begin_.back() + begin_[stage],
            begin_[stage + 1] - begin_[stage]};
  }
  /// A stage's components are set. Returns whether those of all stages at this border are.
  bool is_complete_with(int border) {
    return ++set_[static_cast<std::size_t>(border)] + 1 == begin_.size();
  }

  /// The state of a border is that of `loops` borders before, `shift` later.
  struct Repetition {
    int loops = 0;
    SimTime shift{0};
  };
  /// The shortest repetition that ends at a complete border.
  std::optional<Repetition> repetition(int border) const;

 private:
  /// Where its components begin in a border's values, by stage.
  std::vector<std::size_t> begin_;
  std::unique_ptr<SimTime[]> values_;  ///< by border; set as far as the iteration has come
  std::vector<std::size_t> set_;       ///< number of stages whose components are set, by border
};

}  // namespace stagecraft
