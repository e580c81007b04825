#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// The times that a walk is in at the borders of its laps, in search of a steady state.
///
/// Let X(j) be the walk's state at border j: every rank's clock where it passes its j-th border,
/// and the times of what crosses the border (messages sent and not yet waited for, and until when
/// the send streams are taken). If every component of X(j) is that of X(i), i < j, plus one
/// constant c, then all that follows border j is what follows border i, c later. For each step that
/// comes after a border on its rank has a time that follows, through one acyclic set of sums and
/// maxima, from the times of such steps and from X; behind i and behind j these are the same
/// equations, as the steps are the same up to the numbers of the microbatches; and sums with fixed
/// durations and maxima commute with adding c to all. (The borders need not be a moment of the
/// walk: where a step before a border waits for one behind another rank's border, its time is part
/// of X all the same.)
///
/// So the j - i laps between repeat until the last, each time taking c; any multiple of them can be
/// left out and its time added to all that follows. The equations are those of a max-plus system,
/// whose states become periodic in this way if their graph is connected; the period can exceed one
/// lap.
class LapHistory {
 public:
  /// `widths`: components of each rank. Borders are 0 to `laps`.
  LapHistory(std::vector<std::int32_t> const& widths, int laps);

  /// Where a rank's components at a border belong.
  std::span<SimTime> state(std::size_t rank, int border) {
    return {values_.get() + static_cast<std::size_t>(border) * begin_.back() + begin_[rank],
            begin_[rank + 1] - begin_[rank]};
  }
  /// A rank's components are set. Whether all ranks' at this border are now.
  bool is_complete_with(int border) {
    return ++set_[static_cast<std::size_t>(border)] + 1 == begin_.size();
  }

  /// The state of a border is that of `laps` laps before, `shift` later.
  struct Repetition {
    int laps = 0;
    SimTime shift{0};
  };
  /// The shortest repetition that ends at a complete border.
  std::optional<Repetition> repetition(int border) const;

 private:
  std::vector<std::size_t> begin_;     ///< by rank: of its components in a border's
  std::unique_ptr<SimTime[]> values_;  ///< by border; set up to where the walk has come
  std::vector<std::size_t> set_;       ///< by border: how many ranks' components
};

}  // namespace stagecraft
