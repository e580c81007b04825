#include "apps/stagecraft/plan_output.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "libsim/import/megatron_flags.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/training_names.hpp"
#include "libsim/report/interval_report.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {
namespace {

constexpr double seconds_per_day = 86400;

/// The time of training on all tokens, in days.
std::optional<double> days_of(FoundPlan const& plan, PlanOptions const& options) {
  if (!options.tokens) return std::nullopt;
  return *options.tokens / plan.simulation.tokens_per_second / seconds_per_day;
}

/// The cost of training on all tokens; without a number of tokens, of an iteration.
std::optional<double> cost_of(FoundPlan const& plan, PlanOptions const& options) {
  if (!options.price) return std::nullopt;
  double const seconds = options.tokens ? *days_of(plan, options) * seconds_per_day
                                        : to_seconds(plan.simulation.iteration);
  return *options.price * options.request.gpus * seconds / 3600;
}

std::int64_t headroom_of(FoundPlan const& plan, PlanOptions const& options) {
  return options.request.system.accelerator.memory.value.count() -
         plan.config.memory.reserve.count() - plan.peak();
}

/// Model FLOPs per second and accelerator, in 10^12, as MFU counts them.
double teraflops_per_gpu(FoundPlan const& plan, PlanOptions const& options) {
  return plan.simulation.model_flops / to_seconds(plan.simulation.iteration) /
         options.request.gpus / 1e12;
}

double tokens_per_gpu(FoundPlan const& plan, PlanOptions const& options) {
  return plan.simulation.tokens_per_second / options.request.gpus;
}

/// What of a device is to stay free beside the reserve: fragmentation is not modelled.
constexpr double margin = 0.05;

/// Whether a plan leaves the margin.
bool has_margin(FoundPlan const& plan, PlanOptions const& options) {
  return static_cast<double>(headroom_of(plan, options)) >=
         margin * static_cast<double>(options.request.system.accelerator.memory.value.count());
}

/// If the best leaves less than the margin: how little, and the fastest plan that leaves it.
std::string margin_text(SearchResult const& result, PlanOptions const& options) {
  FoundPlan const& best = result.best.front();
  if (has_margin(best, options)) return {};
  std::string text = "#1 leaves " + gibibytes(headroom_of(best, options)) +
                     " GiB free beside the reserve, less than " + decimals(100 * margin, 0) +
                     " % of the device; ";
  for (auto const& [name, plans] :
       {std::pair{"#", &result.best}, {"of time against memory #", &result.front}}) {
    for (std::size_t i = 0; i < plans->size(); ++i) {
      FoundPlan const& plan = (*plans)[i];
      if (!has_margin(plan, options)) continue;
      double const more =
          to_seconds(plan.simulation.iteration) / to_seconds(best.simulation.iteration) - 1;
      return text + name + std::to_string(i + 1) + " leaves " +
             gibibytes(headroom_of(plan, options)) + " GiB and takes " + decimals(100 * more, 1) +
             " % longer\n";
    }
  }
  return text + "no plan shown leaves more\n";
}

std::string text_of(RecomputePolicy const& policy) {
  std::string text{name_of(policy.granularity)};
  if (policy.granularity == RecomputeGranularity::full) {
    if (policy.method == RecomputeMethod::block) {
      text += " first " + std::to_string(policy.layers);
    } else if (policy.layers > 1) {
      text += " by " + std::to_string(policy.layers);
    }
  }
  if (policy.store_microbatches.count > 0) {
    text += " +" + std::to_string(policy.store_microbatches.count);
  }
  return text;
}

/// The policies of all stages; equal neighbours are written once.
std::string recompute_text(TrainingConfig const& config) {
  std::vector<RecomputePolicy> const& policies = config.recompute;
  std::string text;
  for (std::size_t first = 0; first < policies.size();) {
    std::size_t end = first + 1;
    while (end < policies.size() && policies[end] == policies[first]) ++end;
    if (!text.empty()) text += "; ";
    if (policies.size() > 1) {
      text += std::to_string(first) + (end - first > 1 ? "-" + std::to_string(end - 1) : "") + " ";
    }
    text += text_of(policies[first]);
    first = end;
  }
  constexpr std::size_t longest = 44;
  if (text.size() <= longest) return text;
  std::size_t const cut = text.rfind("; ", longest);
  return text.substr(0, cut == std::string::npos ? longest : cut) + "; ...";
}

std::string layout_text(TrainingConfig const& config) {
  if (config.layout.kind == LayerSplit::Kind::even) return "even";
  return std::to_string(config.layout.first.value_or(0)) + ".." +
         std::to_string(config.layout.last.value_or(0));
}

std::string plan_table(std::vector<FoundPlan> const& plans, PlanOptions const& options) {
  std::vector<TextTable::Column> columns{{"#"},
                                         {"s"},
                                         {"TFLOP/s"},
                                         {"tokens/s"},
                                         {"MFU %"},
                                         {"peak GiB"},
                                         {"free"},
                                         {"t"},
                                         {"SP", Align::left},
                                         {"p"},
                                         {"m"},
                                         {"d"},
                                         {"b"},
                                         {"schedule", Align::left},
                                         {"layout", Align::left},
                                         {"optim", Align::left}};
  if (options.tokens) columns.push_back({"days"});
  if (options.price) {
    std::string const currency = options.currency.empty() ? "" : " " + options.currency;
    columns.push_back({(options.tokens ? "cost" : "cost per iteration") + currency});
  }
  columns.push_back({"recompute by stage", Align::left});
  TextTable table{columns};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    FoundPlan const& plan = plans[i];
    ParallelLayout const& parallel = plan.config.parallel;
    std::vector<std::string> cells{std::to_string(i + 1),
                                   decimals(to_seconds(plan.simulation.iteration), 3),
                                   decimals(teraflops_per_gpu(plan, options), 0),
                                   decimals(tokens_per_gpu(plan, options), 0),
                                   decimals(100 * plan.simulation.mfu, 1),
                                   gibibytes(plan.peak()),
                                   gibibytes(headroom_of(plan, options)),
                                   std::to_string(parallel.tensor),
                                   parallel.sequence ? "yes" : "no",
                                   std::to_string(parallel.pipeline),
                                   std::to_string(parallel.interleave),
                                   std::to_string(parallel.data),
                                   std::to_string(plan.config.batch.micro),
                                   std::string{name_of(plan.config.schedule.kind)},
                                   layout_text(plan.config),
                                   plan.config.memory.distributed_optimizer ? "sharded" : "whole"};
    if (auto const days = days_of(plan, options)) cells.push_back(decimals(*days, 2));
    if (auto const cost = cost_of(plan, options)) cells.push_back(decimals(*cost, 2));
    cells.push_back(recompute_text(plan.config));
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string counts_text(SearchResult const& result, PlanOptions const& options, double seconds) {
  double const rate = static_cast<double>(result.considered) / seconds / options.request.jobs;
  return std::to_string(result.considered) + " plans considered in " + decimals(seconds, 2) +
         " s (" + decimals(rate, 0) +
         " per second and thread): " + std::to_string(result.dismissed_by_memory) +
         " cannot fit, " + std::to_string(result.dismissed_by_bound) +
         " cannot be among the best, " + std::to_string(result.simulated) + " simulated\n";
}

TimeInterval interval_of_plan(FoundPlan const& plan, PlanOptions const& options) {
  return interval_of(plan.simulation, plan.config, options.request.system);
}

/// The probability that the best plan is faster than another one, both run on this machine.
double probability_best(FoundPlan const& best, FoundPlan const& other, PlanOptions const& options) {
  return probability_faster(to_seconds(best.simulation.iteration),
                            to_seconds(other.simulation.iteration),
                            interval_of_plan(best, options).regime);
}

/// How sure it must be that the best plan is faster than another one for them to be separable.
constexpr double sure = 0.8;

/// The plans that may be faster than the best, by their index in the result.
std::vector<std::size_t> rivals_of(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> rivals;
  for (std::size_t i = 1; i < result.best.size(); ++i) {
    if (probability_best(result.best.front(), result.best[i], options) < sure) rivals.push_back(i);
  }
  return rivals;
}

/// The one measurement that would say most: of the rival of which it is least sure that it is
/// slower, beside the best; without rivals of the best, which replaces the bias of all times.
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

nlohmann::ordered_json entry(FoundPlan const& plan,
                             FoundPlan const& best,
                             PlanOptions const& options) {
  nlohmann::ordered_json json;
  json["config"] = to_json(RunConfig{plan.config, options.request.system, {}});
  json["iteration_seconds"] = to_seconds(plan.simulation.iteration);
  put_interval(json, interval_of_plan(plan, options));
  json["probability_slower_than_best"] = probability_best(best, plan, options);
  json["separable"] = probability_best(best, plan, options) >= sure;
  json["peak_bytes"] = plan.peak();
  json["headroom_bytes"] = headroom_of(plan, options);
  json["mfu"] = plan.simulation.mfu;
  json["tokens_per_second"] = plan.simulation.tokens_per_second;
  json["tokens_per_second_per_gpu"] = tokens_per_gpu(plan, options);
  json["teraflops_per_gpu"] = teraflops_per_gpu(plan, options);
  json["free_bytes"] = headroom_of(plan, options);
  json["has_margin"] = has_margin(plan, options);
  auto const optional = [](std::optional<double> const& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  json["days"] = optional(days_of(plan, options));
  json["cost"] = optional(cost_of(plan, options));
  json["megatron_flags"] = megatron_flags(plan.config);
  json["megatron_gaps"] = megatron_gaps(plan.config);
  return json;
}

nlohmann::ordered_json entries(std::vector<FoundPlan> const& plans,
                               FoundPlan const& best,
                               PlanOptions const& options) {
  auto list = nlohmann::ordered_json::array();
  for (FoundPlan const& plan : plans) list.push_back(entry(plan, best, options));
  return list;
}

std::string certainty_text(SearchResult const& result, PlanOptions const& options) {
  std::string text =
      "best: " + interval_text(interval_of_plan(result.best.front(), options)) + "\n";
  std::vector<std::size_t> const rivals = rivals_of(result, options);
  if (rivals.empty()) return text + "the others are slower with 80 % or more\n";
  text += "not separable from it (slower with less than 80 %):";
  for (std::size_t const i : rivals)
    text += (i == rivals.front() ? " " : ", ") + std::to_string(i + 1);
  return text + "; an iteration of number " + std::to_string(rivals.front() + 1) +
         " measured beside one of the best would say most\n";
}

}  // namespace

std::string plan_tables(SearchResult const& result, PlanOptions const& options, double seconds) {
  FoundPlan const& best = result.best.front();
  std::string text = counts_text(result, options, seconds);
  text +=
      "\nfastest plans that fit (TFLOP/s and tokens/s per GPU; free: GiB beside the reserve; t "
      "tensor, SP sequence parallelism, p pipeline, m chunks per stage, d data, b microbatch, "
      "optim "
      "optimizer state)\n";
  text += plan_table(result.best, options);
  text += margin_text(result, options) + certainty_text(result, options);
  text += "\ntime against memory: no other plan is both faster and smaller (up to " +
          decimals(front_reach, 1) + " times the best's time)\n";
  text += plan_table(result.front, options);
  std::vector<std::string> const gaps = megatron_gaps(best.config);
  text += gaps.empty()
              ? "\nMegatron-LM flags of the best:\n"
              : "\nMegatron-LM has no flags for all of the best; these run another plan:\n";
  for (std::string const& gap : gaps) text += "not in these flags: " + gap + "\n";
  return text + megatron_flags(best.config) + "\n";
}

nlohmann::ordered_json to_json(SearchResult const& result,
                               PlanOptions const& options,
                               double seconds) {
  nlohmann::ordered_json best = entries(result.best, result.best.front(), options);
  best.front()["separable"] = rivals_of(result, options).empty();  // from all others
  return {{"considered", result.considered},
          {"simulated", result.simulated},
          {"dismissed_by_memory", result.dismissed_by_memory},
          {"dismissed_by_bound", result.dismissed_by_bound},
          {"seconds", seconds},
          {"jobs", options.request.jobs},
          {"best", best},
          {"pareto", entries(result.front, result.best.front(), options)},
          {"next_measurement", next_measurement(result, options)}};
}

std::string near_miss_text(SearchResult const& result, PlanOptions const& options) {
  std::string text = "nothing fits: of " + std::to_string(result.considered) + " plans for " +
                     std::to_string(options.request.gpus) + " x " +
                     options.request.system.accelerator.name;
  if (!result.closest) return text + ", none was found to come close";
  NearMiss const& miss = *result.closest;
  std::vector<RecomputePolicy> const policies{policy_of(miss.policy)};
  TrainingConfig const config =
      make_config(options.request, miss.arrangement, policies, miss.distributed_optimizer);
  return text + " the closest holds " + gibibytes(miss.excess) + " GiB too much on stage " +
         std::to_string(miss.stage) + " (" +
         gibibytes(options.request.system.accelerator.memory.value.count()) + " GiB less " +
         gibibytes(config.memory.reserve.count()) + " of reserve): tensor " +
         std::to_string(config.parallel.tensor) +
         (config.parallel.sequence ? " with sequence parallelism" : "") + ", pipeline " +
         std::to_string(config.parallel.pipeline) + " x " +
         std::to_string(config.parallel.interleave) + ", data " +
         std::to_string(config.parallel.data) + ", microbatch " +
         std::to_string(config.batch.micro) + ", " + std::string{name_of(config.schedule.kind)} +
         ", recompute " + recompute_text(config) + ", optimizer state " +
         (miss.distributed_optimizer ? "sharded" : "not sharded");
}

}  // namespace stagecraft
