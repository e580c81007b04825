#include "apps/stagecraft/plan/plan_json.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "apps/stagecraft/plan/plan_launch.hpp"
#include "apps/stagecraft/plan/plan_overlaps.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/search/search_names.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

namespace {

nlohmann::ordered_json entry(FoundPlan const& plan,
                             FoundPlan const& best,
                             PlanOptions const& options) {
  OperatingFigures const figures = figures_of(plan, options);
  nlohmann::ordered_json json;
  json["system"] = options.request.system.name;
  json["gpus"] = options.request.gpus;
  json["config"] = to_json(RunConfig{plan.config, options.request.system, {}});
  json["iteration_seconds"] = to_seconds(plan.simulation.iteration);
  put_interval(json, interval_of_plan(plan, options));
  json["probability_slower_than_best"] = probability_best(best, plan, options);
  json["separable"] = probability_best(best, plan, options) >= separable_probability;
  json["not_validated_for"] = unmeasured_settings(plan.config, options.request.system);
  json["peak_bytes"] = plan.peak();
  json["headroom_bytes"] = free_bytes(plan);
  json["mfu"] = plan.simulation.mfu;
  json["mfu_causal"] = mfu_causal(plan.simulation, plan.config);
  json["mfu_precision"] = precision_of_mfu(plan.config);
  json["tokens_per_second"] = plan.simulation.tokens_per_second;
  json["tokens_per_second_per_gpu"] = tokens_per_gpu(plan, options);
  json["gpu_hours_per_trillion_tokens"] = figures.gpu_hours_per_trillion_tokens;
  json["teraflops_per_gpu"] = teraflops_per_gpu(plan, options);
  json["free_bytes"] = free_bytes(plan);
  json["has_margin"] = has_margin(plan, options);
  FitProbability const fit =
      fit_probability_of(plan.simulation, plan.config, options.request.system);
  json["verdict"] = name_of(verdict_of(plan.simulation));
  json["fits_probability"] = fit.run;
  json["fits_probability_reason"] = fit.reason;
  json["days"] = days_of(plan, options);
  json["cost"] = cost_of(plan, options);
  json["cost_per_day"] = figures.cost_per_day;
  json["cost_per_trillion_tokens"] = figures.cost_per_trillion_tokens;
  json["operation"] = to_json(figures, options.rates);
  LaunchFramework const& printed = printed_framework(options);
  LaunchFramework const& megatron = printed.flags ? printed : usual_framework();
  json["megatron_flags"] = megatron.flags(plan.config);
  json["allocator_settings"] = plan.config.memory.allocator_settings;
  json["megatron_gaps"] = megatron.gaps(plan.config, options.node_size());
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
  return list_of(plans, [&](FoundPlan const& plan) { return entry(plan, best, options); });
}

/// The document of one cluster.
nlohmann::ordered_json to_json(ClusterAnswer const& cluster) {
  SearchResult const& result = cluster.result;
  PlanOptions const& options = *cluster.options;
  nlohmann::ordered_json json{{"schema", plan_schema},
                              {"considered", result.considered},
                              {"simulated", result.simulated},
                              {"dismissed_by_memory", result.dismissed_by_memory},
                              {"dismissed_by_bound", result.dismissed_by_bound},
                              {"unexamined", result.unexamined},
                              {"oversized", result.oversized},
                              {"unordered", result.unordered},
                              {"run_out", result.run_out},
                              {"tried", result.tried},
                              {"seconds", cluster.seconds},
                              {"jobs", options.request.jobs},
                              {"margin_bytes", options.request.margin},
                              {"safety", nullptr},
                              {"launchable", nullptr},
                              {"rank", nullptr},
                              {"best", nlohmann::ordered_json::array()},
                              {"near_ties", nlohmann::ordered_json::array()},
                              {"pareto", nlohmann::ordered_json::array()},
                              {"best_launchable", nullptr},
                              {"launch", nullptr},
                              {"schedules", nlohmann::ordered_json::array()},
                              {"shardings", nlohmann::ordered_json::array()},
                              {"schedule_bound", nullptr},
                              {"next_measurement", nullptr},
                              {"not_searched", nullptr},
                              {"clusters", nullptr}};
  if (options.request.safety > 0) json["safety"] = options.request.safety;
  if (options.launchable) json["launchable"] = options.launchable->name;
  if (result.best.empty()) return json;
  FoundPlan const& fastest = result.best.front();
  json["best"] = entries(result.best, fastest, options);
  json["best"].front()["separable"] = rivals_of(result, options).empty();  // from all others
  json["near_ties"] = near_ties(result, options);
  json["pareto"] = entries(result.front, fastest, options);
  if (result.best_launchable) {
    json["best_launchable"] = entry(*result.best_launchable, fastest, options);
    json["best_launchable"]["launchable"] = options.stack_framework->name;
    json["best_launchable"]["slower_percent"] =
        100 * (to_seconds(result.best_launchable->simulation.iteration) /
                   to_seconds(fastest.simulation.iteration) -
               1);
  }
  if (auto const launched = launched_plan(cluster)) json["launch"] = to_json(launch_of(*launched));
  auto const best_of_kind = [](char const* name, auto const& best) {
    nlohmann::ordered_json of_kind{
        {name, name_of(best.kind)}, {"iteration_seconds", nullptr}, {"reason", nullptr}};
    if (best.iteration) {
      of_kind["iteration_seconds"] = to_seconds(*best.iteration);
    } else {
      of_kind["reason"] = name_of(best.why_not);
    }
    return of_kind;
  };
  json["schedules"] = list_of(result.schedules, [&](ScheduleBest const& schedule) {
    return best_of_kind("schedule", schedule);
  });
  json["shardings"] = list_of(result.shardings, [&](ShardingBest const& sharding) {
    return best_of_kind("sharding", sharding);
  });
  json["schedule_bound"] = to_json(schedule_bound_of(fastest, options));
  json["next_measurement"] = next_measurement(result, options);
  json["not_searched"] = to_json(unsearched_overlaps(fastest, options));
  return json;
}

/// Members of several clusters that are sums.
constexpr std::array summed_members{"considered",
                                    "simulated",
                                    "tried",
                                    "dismissed_by_memory",
                                    "dismissed_by_bound",
                                    "unexamined",
                                    "oversized",
                                    "unordered",
                                    "run_out",
                                    "seconds"};

/// Members that say the same of all clusters.
constexpr std::array common_members{"schema", "jobs", "safety", "launchable"};

/// Members of one cluster alone are null.
nlohmann::ordered_json of_several(PlanAnswer const& answer) {
  auto documents = nlohmann::ordered_json::array();
  for (ClusterAnswer const& cluster : answer.clusters) {
    nlohmann::ordered_json document = to_json(cluster);
    document["system"] = cluster.options->request.system.name;
    document["gpus"] = cluster.options->request.gpus;
    documents.push_back(std::move(document));
  }
  nlohmann::ordered_json json;
  for (auto const& [name, value] : documents.front().items()) json[name] = nullptr;
  json.erase("system");
  json.erase("gpus");
  for (char const* const name : common_members) json[name] = documents.front()[name];
  for (char const* const name : summed_members) {
    bool const is_count = documents.front()[name].is_number_integer();
    double sum = 0;
    for (auto const& document : documents) sum += document[name].get<double>();
    is_count ? json[name] = static_cast<std::int64_t>(sum) : json[name] = sum;
  }
  json["best"] = list_of(answer.best, [](ShownPlan const& plan) {
    return entry(*plan, plan.cluster->result.best.front(), *plan.options);
  });
  json["clusters"] = std::move(documents);
  return json;
}

/// The warnings of all clusters, each once.
nlohmann::ordered_json warnings_of(PlanQuestion const& question) {
  std::vector<std::string> warnings;
  for (PlanOptions const& options : question.clusters) {
    for (std::string const& warning : options.warnings) {
      if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
    }
  }
  return warnings;
}

}  // namespace

nlohmann::ordered_json to_json(PlanAnswer const& answer, PlanQuestion const& question) {
  nlohmann::ordered_json json =
      answer.is_comparison() ? of_several(answer) : to_json(answer.clusters.front());
  json["rank"] = name_of(question.rank);
  json["warnings"] = warnings_of(question);
  return json;
}

}  // namespace stagecraft
