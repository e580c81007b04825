#include "libsim/engine/schedule_timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <utility>

#include "libsim/engine/player.hpp"

namespace stagecraft {

namespace {

constexpr double smallest_cost = 1e-100;  ///< other than 0; the scale below stays finite
constexpr double largest_cost = 1e100;

void check_costs(ChunkCosts const& costs) {
  for (double const cost : {costs.forward, costs.backward, costs.transfer}) {
    bool const is_accepted = cost == 0 || (cost >= smallest_cost && cost <= largest_cost);
    if (!is_accepted) {  // also when it is not a number
      std::ostringstream message;
      message << "costs: found '" << cost << "'; accepted: 0, or " << smallest_cost << " to "
              << largest_cost;
      throw ScheduleError{message.str()};
    }
  }
  if (costs.forward + costs.backward == 0) {
    throw ScheduleError{"costs: found forward and backward '0'; accepted: at least one above 0"};
  }
}

/// The power of ten that makes the largest cost about 10^12 ticks, or as many as keep a schedule in
/// which nothing overlaps within the range of SimTime.
double ticks_per_unit(ScheduleShape const& shape, double largest) {
  double const operations = 4.0 * shape.stages * shape.microbatches * shape.chunks;
  double const ticks = std::min(1e12, 4e18 / operations);
  return std::pow(10.0, std::floor(std::log10(ticks / largest)));
}

/// Notes down when computations ran.
class ComputationLog : public SilentObserver {
 public:
  explicit ComputationLog(PipelineSchedule const& schedule) : schedule_{schedule} {
    computations_.resize(schedule.stages.size());
  }

  void ran(int rank, RanEntry const& what, SimTime start, SimTime end) {
    ChunkRun const run = schedule_.run_of({.task = what.task, .microbatch = what.microbatch});
    computations_[static_cast<std::size_t>(rank)].push_back({run, start, end});
  }

  std::vector<std::vector<ChunkSpan>> take() && { return std::move(computations_); }

 private:
  PipelineSchedule const& schedule_;
  std::vector<std::vector<ChunkSpan>> computations_;
};

}  // namespace

ScheduleTimeline play_schedule(PipelineSchedule const& schedule, ChunkCosts const& costs) {
  check_costs(costs);
  double const scale =
      ticks_per_unit(schedule.shape, std::max({costs.forward, costs.backward, costs.transfer}));
  auto const ticks = [scale](double cost) { return SimTime{std::llround(cost * scale)}; };

  std::vector<Task> const tasks(static_cast<std::size_t>(schedule.tasks()));
  std::vector<SimTime> durations;
  durations.reserve(tasks.size());
  for (int task = 0; task < schedule.tasks(); ++task) {
    durations.push_back(ticks(costs.of(schedule.run_of({.task = task}).part)));
  }
  std::vector<MessagePrice> const channels(static_cast<std::size_t>(schedule.channels),
                                           {.latency = ticks(costs.transfer)});
  std::vector<PlayedStage> stages;
  for (StageProgram const& program : schedule.stages) {
    stages.push_back({.program = &program, .tasks = tasks, .durations = durations});
  }
  ComputationLog log{schedule};
  ScheduleTimeline result;
  result.timeline = play({.stages = stages,
                          .channels = channels,
                          .most_queued = schedule.most_queued,
                          .p2p = schedule.shape.p2p},
                         log);
  result.computations = std::move(log).take();
  result.ticks_per_unit = scale;
  return result;
}

}  // namespace stagecraft
