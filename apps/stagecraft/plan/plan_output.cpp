#include "apps/stagecraft/plan/plan_output.hpp"

#include <utility>

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "apps/stagecraft/plan/plan_overlaps.hpp"
#include "apps/stagecraft/plan/plan_schedules.hpp"
#include "apps/stagecraft/plan/plan_table.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/search/standings.hpp"
#include "libsim/training/repeated_heads.hpp"
#include "libsim/training/training_names.hpp"
#include "libsim/units/quantity.hpp"

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
  json["headroom_bytes"] = free_bytes(plan);
  json["mfu"] = plan.simulation.mfu;
  json["mfu_causal"] = mfu_causal(plan.simulation, plan.config);
  json["tokens_per_second"] = plan.simulation.tokens_per_second;
  json["tokens_per_second_per_gpu"] = tokens_per_gpu(plan, options);
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
  return list_of(plans, [&](FoundPlan const& plan) { return entry(plan, best, options); });
}

/// Says how little the best leaves if that is less than the margin, and which plan leaves enough.
std::string margin_text(SearchResult const& result, PlanOptions const& options) {
  FoundPlan const& best = result.best.front();
  if (has_margin(best, options)) return {};
  std::string text = "#1 leaves " + gibibytes(free_bytes(best)) +
                     " GiB of its device free, less than " + decimals(100 * usual_margin, 0) +
                     " % of it; ";
  for (auto const& [name, plans] :
       {std::pair{"#", &result.best}, {"of time against memory #", &result.front}}) {
    for (std::size_t i = 0; i < plans->size(); ++i) {
      FoundPlan const& plan = (*plans)[i];
      if (!has_margin(plan, options)) continue;
      double const more =
          to_seconds(plan.simulation.iteration) / to_seconds(best.simulation.iteration) - 1;
      return text + name + std::to_string(i + 1) + " leaves " + gibibytes(free_bytes(plan)) +
             " GiB and takes " + decimals(100 * more, 1) + " % longer\n";
    }
  }
  return text + "no plan shown leaves more\n";
}

/// Says what the plans leave free, for the heading of the table.
std::string room_text(PlanOptions const& options) {
  SearchRequest const& request = options.request;
  std::string text;
  if (request.margin > 0) {
    double const share = static_cast<double>(request.margin) /
                         static_cast<double>(request.system.accelerator.memory.value.count());
    text += " and leave " + gibibytes(request.margin) + " GiB of each device free (" +
            decimals(100 * share, 1) + " %)";
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
  return counted(result.considered, "plan") + " considered in " + decimals(seconds, 2) + " s (" +
         decimals(rate, 0) +
         " per second and thread): " + std::to_string(result.dismissed_by_memory) +
         " cannot fit, " + std::to_string(result.dismissed_by_bound) +
         " cannot be among the best, " + std::to_string(result.simulated) + " simulated\n" +
         (result.unexamined == 0 ? ""
                                 : std::to_string(result.unexamined) +
                                       " combinations of layout and schedule were skipped, and "
                                       "their plans are not counted: " +
                                       "even their fastest plan is too slow\n") +
         (result.unordered == 0
              ? ""
              : std::to_string(result.unordered) +
                    " combinations of layout and schedule are left out: their orders have more "
                    "than " +
                    std::to_string(most_ordered_passes) +
                    " chunk passes (pipeline x interleave x microbatches)\n") +
         (result.oversized == 0
              ? ""
              : std::to_string(result.oversized) +
                    " combinations of layout and schedule are left out: they have more than " +
                    std::to_string(max_scheduled_forwards) +
                    " chunk passes (pipeline x interleave x microbatches), the most that a run may "
                    "have\n");
}

std::string run_out_line(SearchResult const& result, PlanOptions const& options) {
  return result.run_out == 0 ? "" : run_out_text(result, options) + "\n";
}

/// The environment that the plan's memory was predicted with.
std::string environment_text(FoundPlan const& plan) {
  MemoryConfig const& memory = plan.config.memory;
  if (memory.allocator != AllocatorKind::pytorch) return "";
  return memory.allocator_settings.empty()
             ? "with PYTORCH_CUDA_ALLOC_CONF not set\n"
             : "with PYTORCH_CUDA_ALLOC_CONF=" + memory.allocator_settings + "\n";
}

/// The flags of a plan; if they do not say all of it, first what they leave out.
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

/// Says what the flags lack, and which flags are not recommendations.
constexpr char const* flags_remark =
    "data, steps and checkpoints are to be added; --lr, --seed and the like are `training` of the "
    "run\n";

/// How far the best is from what any order of its passes takes.
std::string bound_text(SearchResult const& result, PlanOptions const& options) {
  FoundPlan const& best = result.best.front();
  ScheduleBound const bound = schedule_bound_of(best, options);
  if (!bound.iteration)
    return "what other orders of its passes take at least is not known: " + bound.reason + "\n";
  auto const more_than = [&](SimTime least) {
    return to_seconds(best.simulation.iteration) / to_seconds(least) - 1;
  };
  constexpr double least_shown = 0.0005;  // rounds to 0.1 %
  if (more_than(*bound.iteration) < least_shown)
    return "no other order of its passes is faster, in whatever memory\n";
  auto const line = [&](std::string const& beginning, SimTime least, std::string const& place) {
    return beginning + " takes at least " + decimals(to_seconds(least), 3) + " s" + place +
           ": this plan is at most " + decimals(100 * more_than(least), 1) +
           " % from the best schedule\n";
  };
  std::string const text =
      line("any order of its passes", *bound.iteration, ", in whatever memory");
  if (!bound.in_memory)
    return text + "a larger bound within its memory: none found, " + bound.reason_in_memory + "\n";
  return text + line("within its memory it", *bound.in_memory, "");
}

/// Something to know before the best is started.
std::string remark_text(FoundPlan const& best) {
  std::optional<std::string> const heads = repeated_heads_text(best.config);
  return heads ? "#1: " + *heads + "\n" : "";
}

std::string certainty_text(SearchResult const& result, PlanOptions const& options) {
  std::string text = "best: " + interval_text(interval_of_plan(result.best.front(), options)) +
                     "\n" + bound_text(result, options);
  if (result.best.size() == 1) return text;  // nothing was compared
  std::vector<std::size_t> const rivals = rivals_of(result, options);
  if (rivals.empty()) {
    return text + "each of the other plans is slower with a probability of at least 80 %\n";
  }
  text += "may be as fast as the best (less than 80 % sure to be slower), smallest peak first: ";
  std::vector<std::size_t> const ties = near_ties(result, options);
  double const best = to_seconds(result.best.front().simulation.iteration);
  for (std::size_t const i : ties) {
    double const more = to_seconds(result.best[i].simulation.iteration) / best - 1;
    text += (i == ties.front() ? "#" : ", #") + std::to_string(i + 1) + " " +
            gibibytes(result.best[i].peak()) + " GiB";
    if (i > 0) text += " (+" + decimals(100 * more, 1) + " %)";
  }
  return text + "\nto tell them apart, measure an iteration of #" +
         std::to_string(rivals.front() + 1) + " and one of #1\n";
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
                              {"unordered", result.unordered},
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
                              {"best_launchable", nullptr},
                              {"schedules", nlohmann::ordered_json::array()},
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
  if (result.best_launchable) {
    json["best_launchable"] = entry(*result.best_launchable, fastest, options);
    TrainingConfig const& config = result.best_launchable->config;
    json["best_launchable"]["megatron_flags"] = megatron_flags(config, *options.stack_version);
    json["best_launchable"]["megatron_gaps"] = megatron_gaps(config, *options.stack_version);
    json["best_launchable"]["launchable"] = name_of(*options.stack_version);
    json["best_launchable"]["slower_percent"] =
        100 * (to_seconds(result.best_launchable->simulation.iteration) /
                   to_seconds(fastest.simulation.iteration) -
               1);
  }
  json["schedules"] = list_of(result.schedules, [](ScheduleBest const& schedule) {
    nlohmann::ordered_json of_schedule{{"schedule", name_of(schedule.kind)},
                                       {"iteration_seconds", nullptr}};
    if (schedule.iteration) of_schedule["iteration_seconds"] = to_seconds(*schedule.iteration);
    return of_schedule;
  });
  json["schedule_bound"] = to_json(schedule_bound_of(fastest, options));
  json["next_measurement"] = next_measurement(result, options);
  json["not_searched"] = to_json(unsearched_overlaps(fastest, options));
  return json;
}

std::string run_out_text(SearchResult const& result, PlanOptions const& options) {
  FoundPlan const& fastest = *result.fastest_to_run_out;
  StageResult const& stage =
      *std::ranges::min_element(fastest.simulation.stages, {}, &StageResult::margin);
  bool const is_one = result.run_out == 1;
  std::int64_t const margin = options.request.margin;
  std::int64_t const lacks = margin - stage.margin;
  return std::to_string(result.run_out) + (is_one ? " plan that fits" : " plans that fit") +
         " by counted bytes " + (is_one ? "is" : "are") + " left out, as " +
         (is_one ? "its allocator and what" : "their allocators and what") +
         " else is on the device " + (margin > 0 ? "leave less than the margin" : "need more") +
         ". " + (is_one ? "It takes " : "The fastest takes ") +
         decimals(to_seconds(fastest.simulation.iteration), 3) + " s and " +
         (lacks > 0                    ? "lacks " + readable_text(Bytes{lacks})
          : options.request.safety > 0 ? "is not as safe as --safety asks"
                                       : "has to empty its allocator's cache") +
         " on stage " + std::to_string(stage.stage);
}

std::string plan_tables(SearchResult const& result,
                        PlanOptions const& options,
                        double seconds,
                        int width) {
  auto const prose = [width](std::string const& text) { return wrapped_lines(text, width, 2); };
  FoundPlan const& best = result.best.front();
  System const& system = options.request.system;
  std::string text =
      prose(counts_text(result, options, seconds) + "on " + std::to_string(options.request.gpus) +
            " x " + system.accelerator.name + " of " + printable(system.name) + " with software " +
            printable(system.software.name) + "\n\nfastest plans that fit" + room_text(options) +
            "\n" + plan_legend(result));
  text += plan_table(result.best, numbers_of(result.best), options, width);
  std::string remarks;
  if (auto const goodput = figures_of(best, options).goodput) {
    remarks += goodput_text(*goodput) +
               (options.rates.tokens ? "; days, cost and energy count it" : "") + "\n";
  }
  remarks += margin_text(result, options) + remark_text(best) + run_out_line(result, options) +
             launchable_text(result, options) + schedules_text(result) +
             certainty_text(result, options) + to_text(unsearched_overlaps(best, options)) +
             unmeasured_text(unmeasured_settings(best.config, options.request.system));
  remarks += "\ntime against memory: no other plan is both faster and smaller (up to " +
             decimals(front_reach, 1) + " times the best's time)\n";
  text += prose(remarks);
  std::vector<std::size_t> const shown = ends_of_families(result.front);
  text += plan_table(result.front, shown, options, width);
  std::size_t const left_out = result.front.size() - shown.size();
  if (left_out > 0) {
    text += prose(std::to_string(left_out) +
                  " more lie between two of these and differ from them only in how much is "
                  "recomputed (--json has them)\n");
  }
  return text + flags_text(best, options) + prose(flags_remark);
}

}  // namespace stagecraft
