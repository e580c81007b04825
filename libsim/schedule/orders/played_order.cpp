#include "libsim/schedule/orders/played_order.hpp"

#include <algorithm>

namespace stagecraft {

SimTime span_of(PlayedOrder const& played) {
  SimTime longest{0};
  for (StageRuns const& stage : played.stages) longest = std::max(longest, stage.end - stage.start);
  return longest;
}

SimTime ideal_time(PlayedOrder const& played) {
  SimTime longest{0};
  for (StageRuns const& stage : played.stages) {
    longest = std::max(longest, stage.busy - stage.recomputing);
  }
  return longest;
}

double bubble_fraction(PlayedOrder const& played) {
  SimTime const ideal = ideal_time(played);
  return static_cast<double>((played.makespan - ideal).count()) /
         static_cast<double>(ideal.count());
}

}  // namespace stagecraft
