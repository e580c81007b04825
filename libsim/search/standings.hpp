#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "libsim/search/candidate.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The largest iteration time of a plan of the front, relative to the best plan's.
inline constexpr double front_reach = 1.5;

/// A simulated plan that fits.
struct Outcome {
  SimTime iteration{0};
  std::int64_t peak = 0;
  std::size_t plan = 0;  ///< index into Candidates::plans, or behind them of one that was tried

  friend auto operator<=>(Outcome const&, Outcome const&) = default;
};

/// The outcomes so far that may belong to the answer.
class Standings {
 public:
  explicit Standings(int top) : top_{static_cast<std::size_t>(top)} {}

  void add(Outcome const& outcome) {
    add_to_best(outcome);
    add_to_front(front_, outcome);
  }
  /// Adds one that took the place of a faster plan, which its device had refused (StageFilling). It
  /// belongs to the front only if it is one of the best: nothing is known of its peak before it is
  /// simulated, so that others like it may have been dismissed.
  void add_to_best(Outcome const& outcome) {
    best_.insert(std::upper_bound(best_.begin(), best_.end(), outcome), outcome);
    if (best_.size() > top_) best_.pop_back();
  }

  /// Whether a plan that has not been simulated may belong to the answer.
  bool may_belong(Candidate const& plan) const { return may_belong(plan.bound, plan.peak); }
  /// Whether one that has been simulated may. Equally fast ones are told apart by add().
  bool may_belong(Outcome const& outcome) const {
    return may_belong(picoseconds(outcome) - 0.5, outcome.peak);
  }
  /// A plan with a larger bound cannot be among the best.
  double last_best() const {
    if (best_.size() < top_) return std::numeric_limits<double>::infinity();
    return picoseconds(best_.back());
  }
  /// Whether a plan with this bound may be among the best.
  bool may_be_best(double bound) const {
    return best_.size() < top_ || bound <= picoseconds(best_.back());
  }
  bool may_be_best(Outcome const& outcome) const { return may_be_best(picoseconds(outcome) - 0.5); }
  /// A plan with a larger bound cannot belong to the answer.
  double last_bound() const {
    if (best_.size() < top_) return std::numeric_limits<double>::infinity();
    return std::max(picoseconds(best_.back()), front_reach * picoseconds(best_.front()));
  }

  std::vector<Outcome> const& best() const { return best_; }
  std::vector<Outcome> front() const {
    std::vector<Outcome> near = front_;
    for (Outcome const& outcome : best_) add_to_front(near, outcome);
    if (!best_.empty()) {
      std::erase_if(near, [&](Outcome const& outcome) {
        return picoseconds(outcome) > front_reach * picoseconds(best_.front());
      });
    }
    return near;
  }

 private:
  static double picoseconds(Outcome const& outcome) {
    return static_cast<double>(outcome.iteration.count());
  }

  static void add_to_front(std::vector<Outcome>& front, Outcome const& outcome) {
    auto const after = std::upper_bound(front.begin(), front.end(), outcome);
    if (after != front.begin() && std::prev(after)->peak <= outcome.peak) return;
    auto const end = std::find_if(after, front.end(),
                                  [&](Outcome const& other) { return other.peak < outcome.peak; });
    front.insert(front.erase(after, end), outcome);
  }

  bool may_belong(double bound, std::int64_t peak) const {
    if (may_be_best(bound)) return true;
    if (bound > front_reach * picoseconds(best_.front())) return false;
    auto const slower =
        std::partition_point(front_.begin(), front_.end(),
                             [&](Outcome const& outcome) { return picoseconds(outcome) <= bound; });
    return slower == front_.begin() || std::prev(slower)->peak > peak;
  }

  std::size_t top_;
  std::vector<Outcome> best_;
  std::vector<Outcome> front_;  ///< by ascending time, hence by descending peak
};

}  // namespace stagecraft
