#include <array>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <optional>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/fix_names.hpp"
#include "apps/stagecraft/near_miss.hpp"
#include "apps/stagecraft/operating_options.hpp"
#include "apps/stagecraft/plan/plan_options.hpp"
#include "apps/stagecraft/plan/plan_output.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/search/plan_search.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {

namespace {

/// The nearest numbers of GPUs, below and above, for which there are plans.
std::string near_numbers(SearchRequest request) {
  constexpr int reach = 64;
  int const gpus = request.gpus;
  std::string text;
  for (int const step : {-1, 1}) {
    for (int away = 1; away <= reach; ++away) {
      request.gpus = gpus + step * away;
      if (request.gpus < 1) break;
      if (!has_plans(request)) continue;
      text += (text.empty() ? "; the nearest are " : " and ") + std::to_string(request.gpus);
      break;
    }
  }
  return text;
}

/// Reports that there is no plan: because of --fix, or even without it.
[[noreturn]] void refuse_empty_space(PlanOptions const& plan) {
  SearchRequest free = plan.request;
  free.filter = {};
  std::string const run = "some legal run of this model on " + std::to_string(free.gpus) +
                          " GPUs with a global batch of " + std::to_string(free.global_batch);
  if (!has_plans(free)) {
    throw CommandLineError{"--gpus", "'" + std::to_string(free.gpus) + "'",
                           "a number that is the product tensor x pipeline x data of a legal run "
                           "of this model with --global-batch " +
                               std::to_string(free.global_batch) + near_numbers(free)};
  }
  std::string all;
  for (FixOption const& fix : plan.fixes) {
    free.filter = fix.alone;
    if (!has_plans(free)) {
      free.filter = {};
      throw CommandLineError{"--fix", "'" + fix.text + "'",
                             "what " + run + " has" + legal_numbers(free, fix.text)};
    }
    all += (all.empty() ? "'" : " and '") + fix.text + "'";
  }
  if (all.empty()) {
    throw CommandLineError{"--launchable",
                           std::string{"'"} + name_of(*plan.launchable) +
                               "', which can run no plan of this model on " +
                               std::to_string(free.gpus) + " GPUs",
                           "other numbers of GPUs, or no --launchable"};
  }
  throw CommandLineError{
      "--fix", all,
      "what " + run + " has together" + (plan.launchable ? ", which --launchable can run" : "")};
}

SearchResult search_with_progress(PlanOptions const& plan) {
  ProgressBar bar;
  return search_as_asked(plan, [&](char const* part, double share, double count) {
    bar.show(part, share, count, "plans");
  });
}

int run_plan(CommandLine const& line) {
  PlanOptions const plan = read_plan_options(line);
  for (std::string const& warning : plan.warnings) std::cerr << "warning: " << warning << '\n';
  std::optional<OutputFile> output;
  if (plan.output) output.emplace(*plan.output);

  auto const begin = std::chrono::steady_clock::now();
  SearchResult const result = search_with_progress(plan);
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  if (plan.json) std::cout << to_json(result, plan, seconds.count()).dump(1) << '\n';
  if (result.best.empty()) {
    std::cerr << "stagecraft plan: " << near_miss_text(result, plan) << '\n';
    return exit_does_not_fit;
  }
  if (!plan.json) {
    std::cout << plan_tables(result, plan, seconds.count(), standard_output_style().width);
  }
  if (output) {
    output->write(origin_line(OutputKind::run, "plan") +
                  to_yaml(RunConfig{result.best.front().config, plan.request.system, {}}));
    output->finish();
  }
  return 0;
}

}  // namespace

SearchResult search_as_asked(PlanOptions const& plan, CommandProgress const& progress) {
  SearchRequest request = plan.request;
  request.progress = [&](SearchProgress const& state) {
    // Considered while bounds are computed, simulated afterwards.
    bool const bounds = state.part == SearchProgress::Part::bounds;
    constexpr std::array<char const*, 4> parts{"bounding", "simulating", "searching shapes",
                                               "searching orders"};
    progress(parts.at(static_cast<std::size_t>(state.part)), state.done,
             static_cast<double>(bounds ? state.considered : state.simulated));
  };
  SearchResult result = search_plans(request);
  if (result.considered == 0) refuse_empty_space(plan);
  return result;
}

Command plan_command() {
  return {
      .name = "plan",
      .summary = "the fastest layouts, schedules and recompute policies that fit",
      .introduction = R"(usage: stagecraft plan MODEL --system S --gpus N --global-batch B [options]

Searches tensor, sequence, pipeline, data, context and expert parallelism, schedules,
microbatch sizes, layer layouts, recompute policies and the sharding of optimizer state for the fastest plans that fit
in memory and leave a margin. Every number is what `stagecraft simulate` gives for that plan.
)",
      .examples =
          R"(  stagecraft plan configs/models/gpt3-175b.yaml --system configs/systems/selene-a100.yaml \
    --gpus 64 --global-batch 64 -o best.yaml
  stagecraft plan configs/models/llama3-8b.yaml --system configs/systems/dgx-h100.yaml \
    --gpus 16 --global-batch 128 --price 2.5/gpu-hour --power 850W --tokens 300e9
  stagecraft plan model.yaml --system s.yaml --gpus 64 --global-batch 64 --fix tensor=4,8 \
    --fix recompute=selective,per_stage --json
  stagecraft plan model.yaml --system s.yaml --gpus 64 --global-batch 64 --margin 10% \
    --launchable megatron-core
)",
      .options = joined_options({plan_options(), operating_options()}),
      .argument = Value::file("MODEL.yaml"),
      .run = run_plan};
}

}  // namespace stagecraft
