#include "libsim/schedule/makespan_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagecraft {

namespace {

/// How early a microbatch can be where, alone in the pipeline; by virtual stage.
struct AloneTimes {
  std::vector<SimTime> forward_start;
  std::vector<SimTime> gradient_end;
};

AloneTimes alone_times(Placement const& placement, SplitTicks const& costs) {
  auto const stages = static_cast<std::size_t>(placement.virtual_stages());
  auto const hop = [&](std::size_t stage) {  // between the stage and the one before
    auto const v = static_cast<int>(stage);
    return placement.place(v).stage == placement.place(v - 1).stage ? SimTime{0} : costs.transfer;
  };
  AloneTimes times{std::vector<SimTime>(stages), std::vector<SimTime>(stages)};
  for (std::size_t v = 1; v < stages; ++v) {
    times.forward_start[v] = times.forward_start[v - 1] + costs.forward + hop(v);
  }
  times.gradient_end.back() = times.forward_start.back() + costs.forward + costs.input_gradient;
  for (std::size_t v = stages - 1; v > 0; --v) {
    times.gradient_end[v - 1] = times.gradient_end[v] + hop(v) + costs.input_gradient;
  }
  return times;
}

}  // namespace

SimTime makespan_bound(Placement const& placement,
                       int microbatches,
                       SplitTicks const& costs,
                       MemoryChanges const& memory,
                       double memory_limit) {
  AloneTimes const alone = alone_times(placement, costs);
  std::int64_t const passes = std::int64_t{microbatches} * placement.chunks();
  // A little more than the limit, so that a quotient that is rounded down does not exclude an
  // order.
  double const limit = memory_limit * (1 + 1e-9);
  auto const fitting =
      static_cast<std::int64_t>(std::min(static_cast<double>(passes), limit / memory.forward));
  SimTime bound{0};
  for (std::int32_t rank = 0; rank < placement.stages(); ++rank) {
    int first = placement.virtual_stage({rank, 0});
    int last = first;
    double held = 0;  // memory times time, of one microbatch
    for (std::int32_t chunk = 0; chunk < placement.chunks(); ++chunk) {
      int const v = placement.virtual_stage({rank, chunk});
      first = std::min(first, v);
      last = std::max(last, v);
      auto const at = static_cast<std::size_t>(v);
      held += memory.forward *
                  static_cast<double>((alone.gradient_end[at] - alone.forward_start[at]).count()) +
              (memory.forward + memory.input_gradient) *
                  static_cast<double>(costs.weight_gradient.count());
    }
    SimTime const start = alone.forward_start[static_cast<std::size_t>(first)];
    SimTime const first_gradient =
        alone.gradient_end[static_cast<std::size_t>(last)] - costs.input_gradient;
    SimTime const wait = std::max(SimTime{0}, first_gradient - start - fitting * costs.forward);
    SimTime const drain = alone.gradient_end[0] -
                          alone.gradient_end[static_cast<std::size_t>(first)] +
                          costs.weight_gradient;
    SimTime const by_time = start + wait + passes * (costs.forward + costs.input_gradient) +
                            std::max(passes * costs.weight_gradient, drain);
    auto const by_memory =
        start + SimTime{static_cast<std::int64_t>(microbatches * (held / limit) * (1 - 1e-9))};
    bound = std::max({bound, by_time, by_memory});
  }
  return bound;
}

}  // namespace stagecraft
