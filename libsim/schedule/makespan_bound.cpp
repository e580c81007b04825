#include "libsim/schedule/makespan_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stagecraft {

namespace {

/// How early a microbatch can be where, alone in the pipeline; by virtual stage.
struct AloneTimes {
  std::vector<SimTime> forward_start;
  std::vector<SimTime> gradient_end;
};

/// A whole backward is bounded as its two halves, of which one saves what it takes less.
enum class Saver { input_gradient, weight_gradient };

SplitTicks with_saved(SplitTicks ticks, Saver saver) {
  SimTime& saving = saver == Saver::input_gradient ? ticks.input_gradient : ticks.weight_gradient;
  saving = std::max(SimTime{0}, saving - ticks.joint);
  return ticks;
}

StageTicks with_saved(StageTicks const& costs, int virtual_stages, Saver saver) {
  std::vector<SplitTicks> ticks;
  ticks.reserve(static_cast<std::size_t>(virtual_stages));
  for (VirtualStageId const v : IdRange<VirtualStageId>{virtual_stages}) {
    ticks.push_back(with_saved(costs.of(v), saver));
  }
  return StageTicks{std::move(ticks)};
}

AloneTimes alone_times(Placement const& placement, StageTicks const& costs) {
  auto const stages = static_cast<std::size_t>(placement.virtual_stages());
  auto const hop = [&](VirtualStageId v) {  // between it and the one before
    VirtualStageId const before = previous(v);
    return placement.place(v).stage == placement.place(before).stage ? SimTime{0}
                                                                     : costs.of(before).transfer;
  };
  AloneTimes times{std::vector<SimTime>(stages), std::vector<SimTime>(stages)};
  for (std::size_t v = 1; v < stages; ++v) {
    auto const here = VirtualStageId::of_index(v);
    times.forward_start[v] =
        times.forward_start[v - 1] + costs.of(previous(here)).forward + hop(here);
  }
  SplitTicks const& end = costs.of(placement.last());
  times.gradient_end.back() = times.forward_start.back() + end.forward + end.input_gradient;
  for (std::size_t v = stages - 1; v > 0; --v) {
    auto const here = VirtualStageId::of_index(v);
    times.gradient_end[v - 1] =
        times.gradient_end[v] + hop(here) + costs.of(previous(here)).input_gradient;
  }
  return times;
}

SimTime bound_of_halves(Placement const& placement,
                        int microbatches,
                        StageTicks const& costs,
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
  for (StageId const stage : placement.stage_ids()) {
    VirtualStageId first = placement.virtual_stage({stage, ChunkId{0}});
    VirtualStageId last = first;
    double held = 0;  // memory times time, of one microbatch
    SimTime longest_forward{0};
    SimTime weights{0};     // of one microbatch
    SimTime others{0};      // likewise
    SimTime recomputes{0};  // likewise
    for (ChunkId const chunk : placement.chunk_ids()) {
      VirtualStageId const v = placement.virtual_stage({stage, chunk});
      first = std::min(first, v);
      last = std::max(last, v);
      std::size_t const at = v.index();
      SplitTicks const& ticks = costs.of(v);
      longest_forward = std::max(longest_forward, ticks.forward);
      weights += ticks.weight_gradient;
      recomputes += ticks.recompute;
      others += ticks.forward + ticks.input_gradient + ticks.recompute;
      held += memory.forward *
                  static_cast<double>((alone.gradient_end[at] - alone.forward_start[at]).count()) +
              (memory.forward + memory.input_gradient) *
                  static_cast<double>(ticks.weight_gradient.count());
    }
    SimTime const start = alone.forward_start[first.index()];
    SimTime const first_gradient = alone.gradient_end[last.index()] - costs.of(last).input_gradient;
    SimTime const wait = std::max(
        SimTime{0}, first_gradient - start - fitting * longest_forward - microbatches * recomputes);
    SimTime const drain = alone.gradient_end[0] - alone.gradient_end[first.index()] +
                          costs.of(VirtualStageId{0}).weight_gradient;
    SimTime const by_time =
        start + wait + microbatches * others + std::max(microbatches * weights, drain);
    auto const by_memory =
        start + SimTime{static_cast<std::int64_t>(microbatches * (held / limit) * (1 - 1e-9))};
    bound = std::max({bound, by_time, by_memory});
  }
  return bound;
}

}  // namespace

SimTime makespan_bound(Placement const& placement,
                       int microbatches,
                       StageTicks const& costs,
                       MemoryChanges const& memory,
                       double memory_limit) {
  SimTime bound{0};
  for (Saver const saver : {Saver::input_gradient, Saver::weight_gradient}) {
    bound = std::max(bound, bound_of_halves(placement, microbatches,
                                            with_saved(costs, placement.virtual_stages(), saver),
                                            memory, memory_limit));
  }
  return bound;
}

}  // namespace stagecraft
