#include "libsim/engine/schedule_timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <utility>

#include "libsim/engine/timeline_walk.hpp"

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

/// A schedule's steps as the timeline takes them: task c is the forward of chunk c, task m + c its
/// backward.
std::vector<IssueEntry> timeline_steps(StageSchedule const& stage, int chunks) {
  std::vector<IssueEntry> steps;
  steps.reserve(stage.steps.size());
  for (ScheduleStep const& from : stage.steps) {
    IssueEntry step{.microbatch = from.microbatch, .first = from.first, .count = from.count};
    switch (from.kind) {
      case ScheduleStep::Kind::forward:
        step.task = from.chunk;
        break;
      case ScheduleStep::Kind::backward:
        step.task = chunks + from.chunk;
        break;
      case ScheduleStep::Kind::post:
        step.kind = IssueEntry::Kind::post;
        break;
      case ScheduleStep::Kind::wait:
        step.kind = IssueEntry::Kind::wait;
        break;
    }
    steps.push_back(step);
  }
  return steps;
}

/// Notes down when computations ran.
class ComputationLog : public SilentObserver {
 public:
  explicit ComputationLog(PipelineSchedule const& schedule) : schedule_{schedule} {
    computations_.resize(schedule.stages.size());
  }

  void ran(int rank, int step, SimTime start, SimTime end) {
    auto const stage = static_cast<std::size_t>(rank);
    ScheduleStep const& ran = schedule_.stages[stage].steps[static_cast<std::size_t>(step)];
    auto const kind = ran.kind == ScheduleStep::Kind::forward ? ChunkRun::Kind::forward
                                                              : ChunkRun::Kind::backward;
    computations_[stage].push_back({{kind, ran.microbatch, ran.chunk}, start, end});
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

  auto const chunks = static_cast<std::size_t>(schedule.shape.chunks);
  std::vector<Task> tasks(2 * chunks);
  std::vector<SimTime> durations(2 * chunks, ticks(costs.backward));
  std::fill_n(durations.begin(), chunks, ticks(costs.forward));
  MessagePrice const price{.latency = ticks(costs.transfer)};

  std::vector<std::vector<IssueEntry>> steps;
  std::vector<RankProgram> ranks;
  for (StageSchedule const& stage : schedule.stages) {
    steps.push_back(timeline_steps(stage, schedule.shape.chunks));
    ranks.push_back({.steps = steps.back(),
                     .tasks = tasks,
                     .transfers = stage.transfers,
                     .durations = durations,
                     .activation = price,
                     .gradient = price});
  }
  ComputationLog log{schedule};
  ScheduleTimeline result;
  result.timeline =
      play({.ranks = ranks, .messages = schedule.messages, .p2p = schedule.shape.p2p}, log);
  result.computations = std::move(log).take();
  result.ticks_per_unit = scale;
  return result;
}

}  // namespace stagecraft
