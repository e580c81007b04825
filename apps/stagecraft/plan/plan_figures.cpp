#include "apps/stagecraft/plan/plan_figures.hpp"

#include <algorithm>

#include "libsim/engine/settle.hpp"
#include "libsim/interval/time_interval.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/search/device_room.hpp"

namespace stagecraft {

double probability_best(FoundPlan const& best, FoundPlan const& other, PlanOptions const& options) {
  return probability_faster(to_seconds(best.simulation.iteration),
                            to_seconds(other.simulation.iteration),
                            interval_of_plan(best, options).regime);
}

std::vector<std::size_t> rivals_of(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> rivals;
  for (std::size_t i = 1; i < result.best.size(); ++i) {
    if (probability_best(result.best.front(), result.best[i], options) < separable_probability) {
      rivals.push_back(i);
    }
  }
  return rivals;
}

std::vector<std::size_t> near_ties(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> ties = rivals_of(result, options);
  if (ties.empty()) return ties;
  ties.insert(ties.begin(), 0);
  std::ranges::stable_sort(ties, {}, [&](std::size_t i) { return result.best[i].peak(); });
  return ties;
}

nlohmann::ordered_json next_measurement(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> const rivals = rivals_of(result, options);
  if (rivals.empty()) {
    return {
        {"plan", 0},
        {"reason",
         "an iteration of the best plan: with `stagecraft fit --measured` the times of all plans "
         "are then as far off as plans of one machine differ"}};
  }
  return {{"plan", rivals.front()},
          {"reason",
           "an iteration of this plan and one of the best: the two are least surely separated"}};
}

OperatingFigures figures_of(FoundPlan const& plan, PlanOptions const& options) {
  return operating_figures(to_seconds(plan.simulation.iteration), plan.simulation.tokens_per_second,
                           options.request.gpus, options.rates);
}

std::optional<double> days_of(FoundPlan const& plan, PlanOptions const& options) {
  return figures_of(plan, options).days;
}

std::optional<double> cost_of(FoundPlan const& plan, PlanOptions const& options) {
  OperatingFigures const figures = figures_of(plan, options);
  return options.rates.tokens ? figures.cost : figures.cost_per_iteration;
}

std::optional<double> energy_of(FoundPlan const& plan, PlanOptions const& options) {
  constexpr double joules_per_kilowatt_hour = 3.6e6;
  OperatingFigures const figures = figures_of(plan, options);
  auto const joules = options.rates.tokens ? figures.joules : figures.joules_per_iteration;
  if (!joules) return std::nullopt;
  return *joules / joules_per_kilowatt_hour / (options.rates.tokens ? 1000 : 1);
}

std::int64_t free_bytes(FoundPlan const& plan) { return least_margin(plan.simulation).count(); }

double teraflops_per_gpu(FoundPlan const& plan, PlanOptions const& options) {
  return plan.simulation.model_flops / to_seconds(plan.simulation.iteration) /
         options.request.gpus / 1e12;
}

double tokens_per_gpu(FoundPlan const& plan, PlanOptions const& options) {
  return plan.simulation.tokens_per_second / options.request.gpus;
}

bool has_margin(FoundPlan const& plan, PlanOptions const& options) {
  return static_cast<double>(free_bytes(plan)) >=
         usual_margin *
             static_cast<double>(options.request.system.accelerator.memory.value.count());
}

TimeInterval interval_of_plan(FoundPlan const& plan, PlanOptions const& options) {
  return interval_of(plan.simulation, plan.config, options.request.system);
}

ScheduleBound schedule_bound_of(FoundPlan const& plan, PlanOptions const& options) {
  System const& system = options.request.system;
  return schedule_bound(make_plan(settled(plan.config, system)), system);
}

}  // namespace stagecraft
