#include "apps/stagecraft/plan/plan_json.hpp"

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "apps/stagecraft/plan/plan_overlaps.hpp"
#include "apps/stagecraft/plan/plan_rivals.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/report/causal_mfu.hpp"
#include "libsim/report/fit_verdict.hpp"
#include "libsim/report/interval_report.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {
namespace {

nlohmann::ordered_json entry(FoundPlan const& plan,
                             FoundPlan const& best,
                             PlanOptions const& options) {
  nlohmann::ordered_json json;
  json["config"] = to_json(RunConfig{plan.config, options.request.system, {}});
  json["iteration_seconds"] = to_seconds(plan.simulation.iteration);
  put_interval(json, interval_of_plan(plan, options));
  json["probability_slower_than_best"] = probability_best(best, plan, options);
  json["separable"] = probability_best(best, plan, options) >= separable_probability;
  json["not_validated_for"] = unmeasured_settings(plan.config, options.request.system);
  json["peak_bytes"] = plan.peak();
  json["headroom_bytes"] = headroom_of(plan, options);
  json["mfu"] = plan.simulation.mfu;
  json["mfu_causal"] = mfu_causal(plan.simulation, plan.config);
  json["tokens_per_second"] = plan.simulation.tokens_per_second;
  json["tokens_per_second_per_gpu"] = tokens_per_gpu(plan, options);
  json["teraflops_per_gpu"] = teraflops_per_gpu(plan, options);
  json["free_bytes"] = headroom_of(plan, options);
  json["has_margin"] = has_margin(plan, options);
  FitProbability const fit =
      fit_probability_of(plan.simulation, plan.config, options.request.system);
  json["verdict"] = name_of(verdict_of(plan.simulation));
  json["fits_probability"] = fit.run;
  json["fits_probability_reason"] = fit.reason;
  json["days"] = days_of(plan, options);
  json["cost"] = cost_of(plan, options);
  json["operation"] = to_json(figures_of(plan, options), options.rates);
  json["megatron_flags"] = megatron_flags(plan.config, version_of_flags(options));
  json["allocator_settings"] = plan.config.memory.allocator_settings;
  json["megatron_gaps"] = megatron_gaps(plan.config, version_of_flags(options));
  return json;
}

nlohmann::ordered_json to_json(std::optional<SimTime> const& bound, std::string const& reason) {
  nlohmann::ordered_json json{{"iteration_seconds", nullptr}, {"reason", nullptr}};
  if (bound) {
    json["iteration_seconds"] = to_seconds(*bound);
  } else {
    json["reason"] = reason;
  }
  return json;
}

nlohmann::ordered_json to_json(ScheduleBound const& bound) {
  nlohmann::ordered_json json = to_json(bound.iteration, bound.reason);
  json["in_memory"] = to_json(bound.in_memory, bound.reason_in_memory);
  return json;
}

nlohmann::ordered_json entries(std::vector<FoundPlan> const& plans,
                               FoundPlan const& best,
                               PlanOptions const& options) {
  auto list = nlohmann::ordered_json::array();
  for (FoundPlan const& plan : plans) list.push_back(entry(plan, best, options));
  return list;
}

}  // namespace

nlohmann::ordered_json to_json(SearchResult const& result,
                               PlanOptions const& options,
                               double seconds) {
  nlohmann::ordered_json json{{"schema", plan_schema},
                              {"considered", result.considered},
                              {"simulated", result.simulated},
                              {"dismissed_by_memory", result.dismissed_by_memory},
                              {"dismissed_by_bound", result.dismissed_by_bound},
                              {"unexamined", result.unexamined},
                              {"oversized", result.oversized},
                              {"run_out", result.run_out},
                              {"tried", result.tried},
                              {"seconds", seconds},
                              {"jobs", options.request.jobs},
                              {"margin_bytes", options.request.margin},
                              {"safety", nullptr},
                              {"launchable", nullptr},
                              {"best", nlohmann::ordered_json::array()},
                              {"near_ties", nlohmann::ordered_json::array()},
                              {"pareto", nlohmann::ordered_json::array()},
                              {"schedule_bound", nullptr},
                              {"next_measurement", nullptr},
                              {"not_searched", nullptr}};
  if (options.request.safety > 0) json["safety"] = options.request.safety;
  if (options.launchable) json["launchable"] = name_of(*options.launchable);
  if (result.best.empty()) return json;
  FoundPlan const& fastest = result.best.front();
  json["best"] = entries(result.best, fastest, options);
  json["best"].front()["separable"] = rivals_of(result, options).empty();  // from all others
  json["near_ties"] = near_ties(result, options);
  json["pareto"] = entries(result.front, fastest, options);
  json["schedule_bound"] = to_json(schedule_bound_of(fastest, options));
  json["next_measurement"] = next_measurement(result, options);
  json["not_searched"] = to_json(unsearched_overlaps(fastest, options));
  return json;
}

}  // namespace stagecraft
