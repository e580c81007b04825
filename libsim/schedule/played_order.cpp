#include "libsim/schedule/played_order.hpp"

#include <algorithm>

namespace stagecraft {

SimTime span_of(PlayedOrder const& played) {
  SimTime longest{0};
  for (RankRuns const& rank : played.ranks) longest = std::max(longest, rank.end - rank.start);
  return longest;
}

SimTime ideal_time(PlayedOrder const& played) {
  SimTime longest{0};
  for (RankRuns const& rank : played.ranks) {
    longest = std::max(longest, rank.busy - rank.recomputing);
  }
  return longest;
}

double bubble_fraction(PlayedOrder const& played) {
  SimTime const ideal = ideal_time(played);
  return static_cast<double>((played.makespan - ideal).count()) /
         static_cast<double>(ideal.count());
}

}  // namespace stagecraft
