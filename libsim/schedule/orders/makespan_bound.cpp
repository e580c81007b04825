#include "libsim/schedule/orders/makespan_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace stagecraft {

namespace {

/// The earliest times of a microbatch alone in the pipeline, by virtual stage.
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

/// The largest part of a room that can be used if each of `count` things takes `first`, and each of
/// `count` others takes `second`.
double usable_room(double room, double first, double second, std::int64_t count) {
  double const all = static_cast<double>(count);
  double most = 0;
  for (double number = 0; number <= all && number * first <= room; ++number) {
    double const others = std::min(std::floor((room - number * first) / second), all);
    most = std::max(most, number * first + others * second);
  }
  return most;
}

/// The same for things of these sizes, `count` of each size; the whole room if there are more than
/// two sizes, if one is 0, or if none fits.
double usable_room(double room, std::vector<double> const& sizes, std::int64_t count) {
  std::map<double, std::int64_t> counts;
  for (double const size : sizes) counts[size] += count;
  if (counts.size() > 2 || counts.begin()->first <= 0 || counts.begin()->first > room) return room;
  auto const& [size, number] = *counts.begin();
  if (counts.size() == 1) {
    return std::min(std::floor(room / size), static_cast<double>(number)) * size;
  }
  auto const& [other, others] = *counts.rbegin();
  return usable_room(room, other, size, std::max(number, others));
}

/// The known times of one stage, per microbatch.
struct StageLoad {
  VirtualStageId first{};  ///< the first virtual stage of its chunks
  VirtualStageId last{};
  SimTime longest_forward{0};
  SimTime weights{0};
  SimTime others{0};
  SimTime recomputes{0};
  double least_held = 0;  ///< by a microbatch in flight in one of its chunks
  double room = 0;
  /// Memory times time over the memory that can be used: while microbatches are in flight, and up
  /// to the ends of their weight gradients.
  double in_flight = 0;
  double until_weights = 0;
};

StageLoad load_of(Placement const& placement,
                  StageId stage,
                  int microbatches,
                  StageTicks const& costs,
                  AloneTimes const& alone,
                  StageRooms const& rooms) {
  StageLoad load;
  load.first = load.last = placement.virtual_stage({stage, ChunkId{0}});
  double in_flight = 0;
  double for_weights = 0;
  std::vector<double> held;
  std::vector<double> all_held;
  for (ChunkId const chunk : placement.chunk_ids()) {
    VirtualStageId const v = placement.virtual_stage({stage, chunk});
    load.first = std::min(load.first, v);
    load.last = std::max(load.last, v);
    std::size_t const at = v.index();
    SplitTicks const& ticks = costs.of(v);
    load.longest_forward = std::max(load.longest_forward, ticks.forward);
    load.weights += ticks.weight_gradient;
    load.recomputes += ticks.recompute;
    load.others += ticks.forward + ticks.input_gradient + ticks.recompute;
    HeldMemory const& of_one = rooms.held[at];
    in_flight += of_one.in_flight *
                 static_cast<double>((alone.gradient_end[at] - alone.forward_start[at]).count());
    for_weights += of_one.for_weights * static_cast<double>(ticks.weight_gradient.count());
    held.push_back(of_one.in_flight);
    all_held.insert(all_held.end(), {of_one.in_flight, of_one.for_weights});
  }
  load.least_held = *std::min_element(held.begin(), held.end());
  // A little more than the room, so that a quotient that is rounded down does not exclude an order.
  load.room = rooms.room[stage.index()] * (1 + 1e-9);
  if (in_flight > 0) load.in_flight = in_flight / usable_room(load.room, held, microbatches);
  if (in_flight + for_weights > 0) {
    load.until_weights = (in_flight + for_weights) / usable_room(load.room, all_held, microbatches);
  }
  return load;
}

/// Whether each stage has room for one microbatch in any of its chunks.
bool one_fits(Placement const& placement, StageRooms const& rooms) {
  for (VirtualStageId const v : placement.virtual_stage_ids()) {
    double const room = rooms.room[placement.place(v).stage.index()] * (1 + 1e-9);
    if (rooms.held[v.index()].in_flight > room) return false;
  }
  return true;
}

/// In whole ticks, a little less than the quotient that it was made of.
SimTime least_time(double ticks) {
  return SimTime{static_cast<std::int64_t>(std::ceil(ticks * (1 - 1e-9)))};
}

SimTime bound_of_halves(Placement const& placement,
                        int microbatches,
                        StageTicks const& costs,
                        StageRooms const& rooms) {
  AloneTimes const alone = alone_times(placement, costs);
  std::int64_t const passes = std::int64_t{microbatches} * placement.chunks();
  SimTime bound{0};
  for (StageId const stage : placement.stage_ids()) {
    StageLoad const load = load_of(placement, stage, microbatches, costs, alone, rooms);
    auto const fitting = load.least_held > 0
                             ? static_cast<std::int64_t>(std::min(static_cast<double>(passes),
                                                                  load.room / load.least_held))
                             : passes;
    SimTime const start = alone.forward_start[load.first.index()];
    SimTime const first_gradient =
        alone.gradient_end[load.last.index()] - costs.of(load.last).input_gradient;
    SimTime const wait =
        std::max(SimTime{0}, first_gradient - start - fitting * load.longest_forward -
                                 microbatches * load.recomputes);
    SimTime const drain = alone.gradient_end[0] - alone.gradient_end[load.first.index()] +
                          costs.of(VirtualStageId{0}).weight_gradient;
    SimTime const by_time =
        start + wait + microbatches * load.others + std::max(microbatches * load.weights, drain);
    SimTime const by_memory = start + std::max(least_time(microbatches * load.in_flight) + drain,
                                               least_time(microbatches * load.until_weights));
    bound = std::max({bound, by_time, by_memory});
  }
  return bound;
}

SimTime bound_of_all(Placement const& placement,
                     int microbatches,
                     StageTicks const& costs,
                     StageRooms const& rooms) {
  SimTime bound{0};
  for (Saver const saver : {Saver::input_gradient, Saver::weight_gradient}) {
    bound = std::max(bound,
                     bound_of_halves(placement, microbatches,
                                     with_saved(costs, placement.virtual_stages(), saver), rooms));
  }
  return bound;
}

}  // namespace

std::optional<SimTime> makespan_bound(Placement const& placement,
                                      int microbatches,
                                      StageTicks const& costs,
                                      StageRooms const& rooms) {
  if (!one_fits(placement, rooms)) return std::nullopt;
  return bound_of_all(placement, microbatches, costs, rooms);
}

SimTime makespan_bound(Placement const& placement,
                       int microbatches,
                       StageTicks const& costs,
                       MemoryChanges const& memory,
                       double memory_limit) {
  HeldMemory const held{.in_flight = memory.forward,
                        .for_weights = memory.forward + memory.input_gradient};
  auto const virtual_stages = static_cast<std::size_t>(placement.virtual_stages());
  auto const stages = static_cast<std::size_t>(placement.stages());
  return bound_of_all(placement, microbatches, costs,
                      {.held = std::vector<HeldMemory>(virtual_stages, held),
                       .room = std::vector<double>(stages, memory_limit)});
}

}  // namespace stagecraft
