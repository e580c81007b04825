#include "apps/stagecraft/plan_output.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "apps/stagecraft/plan_overlaps.hpp"
#include "libsim/engine/memory_room.hpp"
#include "libsim/import/megatron_flags.hpp"
#include "libsim/import/megatron_gaps.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/training_names.hpp"
#include "libsim/report/causal_mfu.hpp"
#include "libsim/report/fit_verdict.hpp"
#include "libsim/report/interval_report.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {
namespace {

OperatingFigures figures_of(FoundPlan const& plan, PlanOptions const& options) {
  return operating_figures(to_seconds(plan.simulation.iteration), plan.simulation.tokens_per_second,
                           options.request.gpus, options.rates);
}

/// The time of training on all tokens, in days.
std::optional<double> days_of(FoundPlan const& plan, PlanOptions const& options) {
  return figures_of(plan, options).days;
}

/// The cost of training on all tokens; without a number of tokens, of an iteration.
std::optional<double> cost_of(FoundPlan const& plan, PlanOptions const& options) {
  OperatingFigures const figures = figures_of(plan, options);
  return options.rates.tokens ? figures.cost : figures.cost_per_iteration;
}

/// The energy of training on all tokens in MWh; without a number of tokens, of an iteration in kWh.
std::optional<double> energy_of(FoundPlan const& plan, PlanOptions const& options) {
  constexpr double joules_per_kilowatt_hour = 3.6e6;
  OperatingFigures const figures = figures_of(plan, options);
  auto const joules = options.rates.tokens ? figures.joules : figures.joules_per_iteration;
  if (!joules) return std::nullopt;
  return *joules / joules_per_kilowatt_hour / (options.rates.tokens ? 1000 : 1);
}

std::int64_t headroom_of(FoundPlan const& plan, PlanOptions const& options) {
  return room_for(plan.config.memory, options.request.system.accelerator).count() - plan.peak();
}

/// Model FLOPs per second and accelerator, in 10^12, as MFU counts them.
double teraflops_per_gpu(FoundPlan const& plan, PlanOptions const& options) {
  return plan.simulation.model_flops / to_seconds(plan.simulation.iteration) /
         options.request.gpus / 1e12;
}

double tokens_per_gpu(FoundPlan const& plan, PlanOptions const& options) {
  return plan.simulation.tokens_per_second / options.request.gpus;
}

/// Whether a plan leaves the usual margin, whatever --margin says.
bool has_margin(FoundPlan const& plan, PlanOptions const& options) {
  return static_cast<double>(headroom_of(plan, options)) >=
         usual_margin *
             static_cast<double>(options.request.system.accelerator.memory.value.count());
}

/// If the best leaves less than the margin: how little, and the fastest plan that leaves it.
std::string margin_text(SearchResult const& result, PlanOptions const& options) {
  FoundPlan const& best = result.best.front();
  if (has_margin(best, options)) return {};
  std::string text = "#1 leaves " + gibibytes(headroom_of(best, options)) +
                     " GiB free beside the reserve, less than " + decimals(100 * usual_margin, 0) +
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

/// How the experts are split, for a list of what a plan has.
std::string experts_text(TrainingConfig const& config) {
  if (!has_experts(config.model)) return {};
  return ", expert " + std::to_string(config.parallel.expert) + ", expert tensor " +
         std::to_string(config.parallel.expert_tensor);
}

std::string layout_text(TrainingConfig const& config) {
  if (config.layout.kind == LayerSplit::Kind::even) return "even";
  return std::to_string(config.layout.first.value_or(0)) + ".." +
         std::to_string(config.layout.last.value_or(0));
}

std::vector<std::size_t> numbers_of(std::vector<FoundPlan> const& plans) {
  std::vector<std::size_t> all(plans.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Whether two plans differ only in how many layers or microbatches are recomputed.
bool are_one_family(TrainingConfig a, TrainingConfig b) {
  for (TrainingConfig* const config : {&a, &b}) {
    for (RecomputePolicy& policy : config->recompute) {
      policy.layers = 1;
      policy.store_microbatches.count = policy.store_microbatches.count > 0 ? 1 : 0;
    }
  }
  return a == b;
}

/// The fastest and the smallest plan of each family of a front, by their numbers.
std::vector<std::size_t> ends_of_families(std::vector<FoundPlan> const& front) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < front.size(); ++i) {
    auto const is_kin = [&](FoundPlan const& other) {
      return are_one_family(other.config, front[i].config);
    };
    auto const at = front.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(front.begin(), at, is_kin) || std::none_of(at + 1, front.end(), is_kin)) {
      ends.push_back(i);
    }
  }
  return ends;
}

std::string plan_table(std::vector<FoundPlan> const& plans,
                       std::vector<std::size_t> const& shown,
                       PlanOptions const& options) {
  std::vector<TextTable::Column> columns{
      {"#"},        {"s"},    {"TFLOP/s"}, {"tokens/s"},        {"MFU %"},
      {"peak GiB"}, {"free"}, {"t"},       {"SP", Align::left}, {"p"},
      {"m"},        {"d"},    {"b"}};
  bool const splits = splits_sequences(options.request);
  if (splits) columns.push_back({"c"});
  bool const splits_experts = has_experts(options.request.base.model);
  if (splits_experts) columns.insert(columns.end(), {{"EP"}, {"ETP"}});
  columns.insert(columns.end(),
                 {{"schedule", Align::left}, {"layout", Align::left}, {"optim", Align::left}});
  if (options.rates.tokens) columns.push_back({"days"});
  if (options.rates.price) {
    std::string const currency = options.rates.currency.empty() ? "" : " " + options.rates.currency;
    columns.push_back({(options.rates.tokens ? "cost" : "cost per iteration") + currency});
  }
  if (options.rates.watts) columns.push_back({options.rates.tokens ? "MWh" : "kWh per iteration"});
  columns.push_back({"recompute by stage", Align::left});
  TextTable table{columns};
  for (std::size_t const i : shown) {
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
                                   std::to_string(plan.config.batch.micro)};
    if (splits) cells.push_back(std::to_string(parallel.context));
    if (splits_experts) {
      cells.push_back(std::to_string(parallel.expert));
      cells.push_back(std::to_string(parallel.expert_tensor));
    }
    cells.insert(cells.end(),
                 {std::string{name_of(plan.config.schedule.kind)}, layout_text(plan.config),
                  plan.config.memory.distributed_optimizer ? "sharded" : "whole"});
    if (auto const days = days_of(plan, options)) cells.push_back(decimals(*days, 2));
    if (auto const cost = cost_of(plan, options)) cells.push_back(amount_text(*cost));
    if (auto const energy = energy_of(plan, options)) cells.push_back(decimals(*energy, 3));
    cells.push_back(recompute_text(plan.config));
    table.add_row(std::move(cells));
  }
  return table.text();
}

/// What the plans leave free, for the heading of the table.
std::string room_text(PlanOptions const& options) {
  SearchRequest const& request = options.request;
  std::string text;
  if (request.margin > 0) {
    double const share = static_cast<double>(request.margin) /
                         static_cast<double>(request.system.accelerator.memory.value.count());
    text += " and leave " + gibibytes(request.margin) + " GiB (" + decimals(100 * share, 1) +
            " % of the device) beside " + gibibytes(request.base.memory.kept_in_reserve().count()) +
            " GiB of reserve";
  }
  if (request.safety > 0) {
    text += ", with a probability of at least " + decimals(request.safety, 3) +
            " by measured runs of " + request.system.software.name;
  }
  if (options.launchable)
    text += std::string{", of those that "} + name_of(*options.launchable) + " can run";
  return text;
}

std::string counts_text(SearchResult const& result, PlanOptions const& options, double seconds) {
  double const rate = static_cast<double>(result.considered) / seconds / options.request.jobs;
  return std::to_string(result.considered) + " plans considered in " + decimals(seconds, 2) +
         " s (" + decimals(rate, 0) +
         " per second and thread): " + std::to_string(result.dismissed_by_memory) +
         " cannot fit, " + std::to_string(result.dismissed_by_bound) +
         " cannot be among the best, " + std::to_string(result.simulated) + " simulated\n" +
         (result.tried == 0 ? ""
                            : std::to_string(result.tried) +
                                  " of them follow an order and were tried on the best layouts of "
                                  "the other schedules only: no bound covers the rest\n") +
         (result.unexamined == 0
              ? ""
              : std::to_string(result.unexamined) +
                    " schedules of shapes were left out whole, their plans uncounted: all take " +
                    "too long\n");
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
  auto const optional = [](std::optional<double> const& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  json["fits_probability"] = optional(fit.run);
  json["fits_probability_reason"] = fit.reason;
  json["days"] = optional(days_of(plan, options));
  json["cost"] = optional(cost_of(plan, options));
  json["operation"] = to_json(figures_of(plan, options), options.rates);
  json["megatron_flags"] = megatron_flags(plan.config, version_of_flags(options));
  json["allocator_settings"] = plan.config.memory.allocator_settings;
  json["megatron_gaps"] = megatron_gaps(plan.config, version_of_flags(options));
  return json;
}

nlohmann::ordered_json entries(std::vector<FoundPlan> const& plans,
                               FoundPlan const& best,
                               PlanOptions const& options) {
  auto list = nlohmann::ordered_json::array();
  for (FoundPlan const& plan : plans) list.push_back(entry(plan, best, options));
  return list;
}

/// The flags of a plan; if they do not say all of it, first what they leave out.
/// The environment that the plan's memory was predicted with.
std::string environment_text(FoundPlan const& plan) {
  MemoryConfig const& memory = plan.config.memory;
  if (memory.allocator != AllocatorKind::pytorch) return "";
  return memory.allocator_settings.empty()
             ? "with PYTORCH_CUDA_ALLOC_CONF not set\n"
             : "with PYTORCH_CUDA_ALLOC_CONF=" + memory.allocator_settings + "\n";
}

std::string flags_text(FoundPlan const& plan, PlanOptions const& options) {
  MegatronVersion const version = version_of_flags(options);
  std::vector<std::string> const gaps = megatron_gaps(plan.config, version);
  std::string const name =
      version == MegatronVersion::of_2022 ? "Megatron-LM of 2022" : "Megatron-LM";
  if (gaps.empty()) {
    return "\n" + name + " flags of the best:\n" + megatron_flags(plan.config, version) + "\n" +
           environment_text(plan);
  }
  std::string text = "\nThese flags do not run the best plan: " + name + " has none for\n";
  for (std::string const& gap : gaps) text += "  " + gap + "\n";
  if (!options.launchable && !is_launchable(plan.config, version)) {
    text += std::string{"(--launchable "} + name_of(version) +
            " searches only plans that the flags can say)\n";
  }
  return text + megatron_flags(plan.config, version) + "\n" + environment_text(plan);
}

/// The plans that may be as fast as the best, and itself, by ascending peak memory: indices.
std::vector<std::size_t> near_ties(SearchResult const& result, PlanOptions const& options) {
  std::vector<std::size_t> ties = rivals_of(result, options);
  if (ties.empty()) return ties;
  ties.insert(ties.begin(), 0);
  std::ranges::stable_sort(ties, {}, [&](std::size_t i) { return result.best[i].peak(); });
  return ties;
}

std::string certainty_text(SearchResult const& result, PlanOptions const& options) {
  std::string text =
      "best: " + interval_text(interval_of_plan(result.best.front(), options)) + "\n";
  std::vector<std::size_t> const rivals = rivals_of(result, options);
  if (rivals.empty()) return text + "the others are slower with 80 % or more\n";
  text += "as fast as far as is known (slower with less than 80 %), by memory: ";
  std::vector<std::size_t> const ties = near_ties(result, options);
  double const best = to_seconds(result.best.front().simulation.iteration);
  for (std::size_t const i : ties) {
    double const more = to_seconds(result.best[i].simulation.iteration) / best - 1;
    text += (i == ties.front() ? "#" : ", #") + std::to_string(i + 1) + " " +
            gibibytes(result.best[i].peak()) + " GiB";
    if (i > 0) text += " (+" + decimals(100 * more, 1) + " %)";
  }
  return text + "\nan iteration of #" + std::to_string(rivals.front() + 1) +
         " measured beside one of #1 would say most\n";
}

}  // namespace

std::string plan_tables(SearchResult const& result, PlanOptions const& options, double seconds) {
  FoundPlan const& best = result.best.front();
  std::string text = counts_text(result, options, seconds);
  System const& system = options.request.system;
  text += "on " + std::to_string(options.request.gpus) + " x " + system.accelerator.name + " of " +
          printable(system.name) + " with software " + printable(system.software.name) + "\n";
  text += "\nfastest plans that fit" + room_text(options) +
          "\n(TFLOP/s and tokens/s per GPU; MFU counts attention over the full square; free: GiB "
          "beside the reserve; t tensor, SP sequence parallelism, p pipeline, m chunks per stage, "
          "d data, b microbatch, " +
          (splits_sequences(options.request) ? "c context, " : "") +
          (has_experts(options.request.base.model) ? "EP expert, ETP expert tensor, " : "") +
          "optim optimizer state)\n";
  text += plan_table(result.best, numbers_of(result.best), options);
  if (auto const goodput = figures_of(best, options).goodput) {
    text += goodput_text(*goodput) +
            (options.rates.tokens ? "; days, cost and energy count it" : "") + "\n";
  }
  text += margin_text(result, options) + certainty_text(result, options) +
          to_text(unsearched_overlaps(best, options)) +
          unmeasured_text(unmeasured_settings(best.config, options.request.system));
  text += "\ntime against memory: no other plan is both faster and smaller (up to " +
          decimals(front_reach, 1) + " times the best's time)\n";
  std::vector<std::size_t> const shown = ends_of_families(result.front);
  text += plan_table(result.front, shown, options);
  std::size_t const left_out = result.front.size() - shown.size();
  if (left_out > 0) {
    text += std::to_string(left_out) +
            " more lie between two of these and differ from them only in how much is recomputed "
            "(--json has them)\n";
  }
  return text + flags_text(best, options);
}

nlohmann::ordered_json to_json(SearchResult const& result,
                               PlanOptions const& options,
                               double seconds) {
  nlohmann::ordered_json json{{"schema", "stagecraft.plan/1"},
                              {"considered", result.considered},
                              {"simulated", result.simulated},
                              {"dismissed_by_memory", result.dismissed_by_memory},
                              {"dismissed_by_bound", result.dismissed_by_bound},
                              {"unexamined", result.unexamined},
                              {"tried", result.tried},
                              {"seconds", seconds},
                              {"jobs", options.request.jobs},
                              {"margin_bytes", options.request.margin},
                              {"safety", nullptr},
                              {"launchable", nullptr},
                              {"best", nlohmann::ordered_json::array()},
                              {"near_ties", nlohmann::ordered_json::array()},
                              {"pareto", nlohmann::ordered_json::array()},
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
  json["next_measurement"] = next_measurement(result, options);
  json["not_searched"] = to_json(unsearched_overlaps(fastest, options));
  return json;
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
  std::int64_t const margin = options.request.margin;
  std::string const kept =
      margin > 0 ? " of reserve and " + gibibytes(margin) + " of margin" : " of reserve";
  std::string const without =
      margin > 0 && miss.excess <= margin ? "; without the margin it fits (--margin 0)" : "";
  return text + " the closest holds " + gibibytes(miss.excess) + " GiB too much on stage " +
         std::to_string(miss.stage.value()) + " (" +
         gibibytes(options.request.system.accelerator.memory.value.count()) + " GiB less " +
         gibibytes(config.memory.kept_in_reserve().count()) + kept + "): tensor " +
         std::to_string(config.parallel.tensor) +
         (config.parallel.sequence ? " with sequence parallelism" : "") + ", pipeline " +
         std::to_string(config.parallel.pipeline) + " x " +
         std::to_string(config.parallel.interleave) + ", data " +
         std::to_string(config.parallel.data) + ", microbatch " +
         std::to_string(config.batch.micro) +
         (config.parallel.context > 1 ? ", context " + std::to_string(config.parallel.context)
                                      : "") +
         experts_text(config) + ", " + std::string{name_of(config.schedule.kind)} + ", recompute " +
         recompute_text(config) + ", optimizer state " +
         (miss.distributed_optimizer ? "sharded" : "not sharded") + without;
}

}  // namespace stagecraft
