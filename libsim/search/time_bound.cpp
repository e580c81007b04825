#include "libsim/search/time_bound.hpp"

#include <algorithm>

#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {
namespace {

/// The least time that a stage's exchanges take between its first forward and its last backward.
double exchange_time(StageId stage,
                     int stages,
                     ExchangeCounts const& counts,
                     MessageTimes const& times) {
  StageId const last{stages - 1};
  StageId const after = stage < last ? next(stage) : StageId{0};
  StageId const before = stage > StageId{0} ? previous(stage) : last;
  double const up = std::min(times.activation(stage), times.gradient(after));
  double const down = std::min(times.activation(before), times.gradient(stage));
  return static_cast<double>(counts.with_next) * up +
         static_cast<double>(counts.with_previous) * down +
         static_cast<double>(counts.with_both) * std::max(up, down);
}

}  // namespace

MessageTimes::MessageTimes(SearchRequest const& request, Arrangement const& arrangement) {
  TrainingPlan const plan =
      make_outline(make_config(request, arrangement, {RecomputePolicy{}}, least_sharding(request)));
  CostModel const cost{request.system, plan};
  are_blocking_ = plan.config.schedule.p2p == P2p::blocking;
  overhead_ = static_cast<double>(cost.iteration_overhead().count());
  int const p = plan.config.parallel.pipeline;
  auto const time_of = [&](StageId from, StageId to) {
    MessageCost const message = cost.message_cost(from, to);
    return static_cast<double>((message.latency + message.occupancy).count());
  };
  for (StageId const stage : IdRange<StageId>{p}) {
    activation_.push_back(time_of(stage, StageId{(stage.value() + 1) % p}));
    gradient_.push_back(time_of(stage, StageId{(stage.value() + p - 1) % p}));
  }
}

double iteration_bound(std::span<StageTimes const> stages,
                       std::span<StageMoments const> moments,
                       MessageTimes const& messages,
                       ScheduleKind kind) {
  constexpr double safety = 1 - 1e-12;
  auto const p = static_cast<int>(stages.size());
  double reached = 0;   // when the first microbatch reaches the stage
  double returned = 0;  // from the end of the stage's last backward to that of
                        // the first stage's
  double bound = 0;
  for (StageId const stage : IdRange<StageId>{p}) {
    std::size_t const s = stage.index();
    StageTimes const& times = stages[s];
    reached = std::max(copies_of(kind) > 1 ? 0 : reached, times.begin);
    double span = times.busy - (has_pairs(kind) ? times.hidable : 0);
    if (p > 1 && messages.are_blocking()) {
      span += exchange_time(stage, p, moments[s].exchanges, messages);
    }
    double const after =
        has_order(kind) ? times.end : std::max(times.end, returned + stages[0].end);
    bound = std::max(bound, reached + span + after);
    if (copies_of(kind) > 1) continue;
    reached += times.first_forward + messages.activation(stage);
    if (next(stage) < StageId{p}) returned += times.last_backward + messages.gradient(next(stage));
  }
  return (bound + messages.overhead()) * safety;
}

}  // namespace stagecraft
