#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/shared_options.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/fix_names.hpp"
#include "apps/stagecraft/near_miss.hpp"
#include "apps/stagecraft/operating_options.hpp"
#include "apps/stagecraft/plan/plan_answer.hpp"
#include "apps/stagecraft/plan/plan_json.hpp"
#include "apps/stagecraft/plan/plan_launch.hpp"
#include "apps/stagecraft/plan/plan_options.hpp"
#include "apps/stagecraft/plan/plan_output.hpp"
#include "apps/stagecraft/plan/plan_remarks.hpp"
#include "apps/stagecraft/plan/plan_words.hpp"
#include "apps/stagecraft/terminal.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/page/plans_page.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t most_plans = 5;  ///< that a reader compares

/// "tensor 8, pipeline 8 x 3 chunks, microbatches of 1; interleaved, recompute selective": factors
/// of one are left out.
std::string spelled_layout(TrainingConfig const& config) {
  ParallelLayout const& parallel = config.parallel;
  std::string text;
  auto const add = [&](char const* name, int factor) {
    if (factor > 1) text += (text.empty() ? "" : ", ") + (name + (" " + std::to_string(factor)));
  };
  add("tensor", parallel.tensor);
  add("pipeline", parallel.pipeline);
  if (parallel.interleave > 1) text += " x " + std::to_string(parallel.interleave) + " chunks";
  add("context", parallel.context);
  add("expert", parallel.expert);
  add("data", parallel.data);
  text += (text.empty() ? "" : ", ") + std::string{"microbatches of "} +
          std::to_string(config.batch.micro);
  if (config.sharding.shares_optimizer()) text += ", sharding " + sharding_text(config.sharding);
  return text + "; " + std::string{name_of(config.schedule.kind)} + ", recompute " +
         recompute_text(config);
}

PagePlan page_plan(ShownPlan const& shown, std::string note) {
  return {.cluster = name_of_cluster(*shown.options),
          .layout = spelled_layout(shown->config),
          .note = std::move(note),
          .config = &shown->config,
          .simulation = &shown->simulation,
          .system = &shown.options->request.system,
          .rates = shown.options->rates};
}

/// The best of each cluster; of one cluster alone its best few. Best first.
std::vector<PagePlan> candidates_of(PlanAnswer const& answer, PlanRank rank) {
  std::vector<std::pair<double, PagePlan>> plans;
  auto const add = [&](ShownPlan const& shown, std::string note) {
    bool const is_there = std::ranges::any_of(plans, [&](auto const& other) {
      return *other.second.config == shown->config &&
             other.second.system == &shown.options->request.system;
    });
    if (!is_there) plans.emplace_back(demerit_of(shown, rank), page_plan(shown, std::move(note)));
  };
  for (ClusterAnswer const& cluster : answer.clusters) {
    std::size_t const shown =
        answer.is_comparison() ? 1 : std::min(most_plans, cluster.result.best.size());
    for (std::size_t i = 0; i < std::min(shown, cluster.result.best.size()); ++i) {
      add({&cluster.result.best[i], cluster.options, &cluster}, "");
    }
    auto const launched = launched_plan(cluster);
    if (launched && !cluster.options->launchable) {
      add(launched->plan,
          "the best that the flags of " + std::string{launched->framework->name} + " can say");
    }
  }
  std::ranges::stable_sort(plans, {}, [](auto const& plan) { return plan.first; });
  std::vector<PagePlan> list;
  list.reserve(plans.size());
  for (auto& [demerit, plan] : plans) list.push_back(std::move(plan));
  return list;
}

/// The page of `plan --report`: the best plans of all clusters, and of each cluster the best that
/// can be launched. Pre: some plan fits.
std::string plan_page(PlanAnswer const& answer, PlanQuestion const& question) {
  auto const launched = launched_plan(answer, question.rank);
  bool const starts_another = launched && !is_first(*launched, answer);
  ShownPlan const& best = starts_another ? launched->plan : answer.best.front();
  std::vector<PagePlan> const candidates = candidates_of(answer, question.rank);
  auto const headline = std::ranges::find_if(candidates, [&](PagePlan const& plan) {
    return *plan.config == best->config && plan.system == &best.options->request.system;
  });
  ModelConfig const& model = best->config.model;
  SearchRequest const& request = best.options->request;
  std::vector<std::string> remarks;
  if (answer.is_comparison()) {
    remarks.emplace_back(comparison_remark);
  } else {
    for (PlanRemark const& remark : search_remarks(answer.clusters.front(), false)) {
      std::string line = remark.text(0);
      if (!line.empty()) remarks.push_back(std::move(line));
    }
  }
  std::string clusters;
  for (PlanOptions const& options : question.clusters) {
    clusters += (clusters.empty() ? "" : ", ") + name_of_cluster(options);
  }
  PageQuestion const page{
      .title =
          (answer.is_comparison() ? "Where to train " : "How to train ") + parameters_text(model),
      .subtitle = {"On " + clusters + ", with " + std::to_string(request.global_batch) +
                       " sequences of " + std::to_string(model.sequence) +
                       " tokens per iteration; ranked by " + name_of(question.rank) + ".",
                   "Predicted by simulation; what stands behind the numbers is at the end."},
      .remarks = std::move(remarks),
      .command_line = question.command_line,
      .run_file = to_yaml(RunConfig{best->config, request.system, {}}),
      .headline = static_cast<std::size_t>(headline - candidates.begin()),
      .faster = starts_another
                    ? why_not_started(*launched, answer.best.front(), "Candidate 1") + "."
                    : ""};
  return plans_page(candidates, page);
}

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

/// Why the simplest run on all accelerators is illegal: " (KEY: found X; accepted: Y)", or empty.
std::string first_problem(SearchRequest const& request) {
  Arrangement const simplest{
      {}, {.data = request.gpus}, {.first = request.base.model.layers, .middle = 0, .last = 0}};
  for (ShardingKind const kind : sharding_kinds(request)) {
    TrainingConfig const config =
        make_config(request, simplest, {RecomputePolicy{}}, default_sharding(kind));
    std::vector<Problem> const problems = problems_of(config);
    if (!problems.empty()) return " (" + to_string(problems.front()) + ")";
  }
  return {};
}

/// Reports a --set without which there would be plans.
void refuse_override(PlanOptions const& plan, SearchRequest const& free) {
  for (std::string const& text : plan.overrides) {
    std::optional<TrainingConfig> base = plan.base_without(text);
    if (!base) continue;
    SearchRequest without = free;
    without.base = *std::move(base);
    if (!has_plans(without)) continue;
    throw CommandLineError{
        "--set", "'" + text + "', with which no run of this model is legal" + first_problem(free),
        "another value, or none, with the software '" + free.system.software.name + "'"};
  }
}

/// What no plan of the space has as the framework needs it: the gaps that all have in common.
std::vector<std::string> common_gaps(SearchRequest const& request,
                                     LaunchFramework const& framework,
                                     int node) {
  std::optional<std::vector<std::string>> common;
  for (ShapeChoice const& shape : shape_choices(request)) {
    for (ScheduleChoice const& schedule : schedule_choices(request, shape)) {
      Arrangement const some{shape, schedule, share_choices(request, schedule).front()};
      std::vector<Sharding> shardings = whole_shardings(request, shape, schedule);
      std::ranges::copy(unit_shardings(request, shape, schedule), std::back_inserter(shardings));
      for (Sharding const& sharding : shardings) {
        std::vector<std::string> const gaps = gaps_of_choices(
            make_config(request, some, {RecomputePolicy{}}, sharding), framework, node);
        if (!common) common = gaps;
        std::erase_if(*common, [&](std::string const& gap) {
          return std::ranges::find(gaps, gap) == gaps.end();
        });
        if (common->empty()) return {};
      }
    }
  }
  return common.value_or(std::vector<std::string>{});
}

/// Reports that --launchable leaves no plan of the space.
[[noreturn]] void refuse_launchable(PlanOptions const& plan) {
  std::string gaps;
  for (std::string const& gap : common_gaps(plan.request, *plan.launchable, plan.node_size())) {
    gaps += (gaps.empty() ? "" : "; ") + gap;
  }
  throw CommandLineError{
      "--launchable",
      "'" + std::string{plan.launchable->name} + "', which can run no plan of this model on " +
          std::to_string(plan.request.gpus) + " GPUs" + (gaps.empty() ? "" : " (" + gaps + ")"),
      (gaps.empty() ? "other numbers of GPUs" : "plans without that") +
          std::string{", or no --launchable"}};
}

/// Why units of a model with multi-token prediction have no plan, as the end of a sentence.
std::string without_predictions(PlanOptions const& plan, FixOption const& fix) {
  std::vector<ShardingKind> const& kinds = fix.alone.sharding;
  bool const has_units = !kinds.empty() && std::ranges::all_of(kinds, [](ShardingKind kind) {
    return traits_of(kind).has_units();
  });
  if (!has_units || plan.request.base.model.predicted_tokens == 0) return "";
  return "; units go with model.predicted_tokens 0";
}

/// Reports that there is no plan: because of --fix, or even without it.
[[noreturn]] void refuse_empty_space(PlanOptions const& plan) {
  SearchRequest free = plan.request;
  free.filter = {};
  std::string const run = "some legal run of this model on " + std::to_string(free.gpus) +
                          " GPUs with a global batch of " + std::to_string(free.global_batch);
  if (!has_plans(free)) {
    refuse_override(plan, free);
    throw CommandLineError{"--gpus", "'" + std::to_string(free.gpus) + "'",
                           "a number that is the product tensor x pipeline x data of a legal run "
                           "of this model with --global-batch " +
                               std::to_string(free.global_batch) + near_numbers(free)};
  }
  std::string all;
  std::string_view option = "--fix";
  std::string why;
  for (FixOption const& fix : plan.fixes) {
    free.filter = fix.alone;
    if (!has_plans(free)) {
      free.filter = {};
      throw CommandLineError{
          std::string{fix.option}, "'" + fix.text + "'",
          "what " + run + " has" + legal_numbers(free, fix.text) + without_predictions(plan, fix)};
    }
    if (all.empty()) option = fix.option;
    why += without_predictions(plan, fix);
    all += (all.empty() ? "'" : " and '") + fix.text + "'";
  }
  if (plan.launchable && (all.empty() || has_plans(plan.request))) refuse_launchable(plan);
  throw CommandLineError{std::string{option}, all,
                         "what " + run + " has together" +
                             (plan.launchable ? ", which --launchable can run" : "") + why};
}

/// What is written beside the text, refused before the search if it cannot be.
void require_outputs(PlanQuestion const& question) {
  for (auto const& path : {question.output, question.page}) {
    if (path) require_writable(*path);
  }
  if (!question.kit) return;
  std::filesystem::path above = std::filesystem::absolute(*question.kit);
  std::error_code ignored;
  while (above.has_relative_path() && !std::filesystem::exists(above, ignored)) {
    above = above.parent_path();
  }
  require_writable(above / "run.yaml");
  bool const can_launch = std::ranges::any_of(question.clusters, [](PlanOptions const& options) {
    return options.launchable || (options.stack_framework && options.stack_gap.empty());
  });
  if (can_launch) return;
  PlanOptions const& options = question.clusters.front();
  throw CommandLineError{
      "--kit",
      options.stack_gap.empty()
          ? "software '" + options.request.system.software.name + "', for which no kit is known"
          : "a model that the flags cannot say: " + options.stack_gap,
      "plans with --software megatron-core or torchtitan, of a model that it can run"};
}

/// Writes what the options ask for.
void write_outputs(PlanAnswer const& answer, PlanQuestion const& question) {
  if (question.output) {
    ShownPlan const& best = answer.best.front();
    write_output(*question.output,
                 origin_line(OutputKind::run, "plan") +
                     to_yaml(RunConfig{best->config, best.options->request.system, {}}));
  }
  if (question.page) write_output(*question.page, plan_page(answer, question));
  if (!question.kit) return;
  auto const launched = launched_plan(answer, question.rank);
  if (!launched) {
    std::cerr << "note: --kit: of the plans searched, none that can be launched fits; nothing "
                 "is written\n";
    return;
  }
  std::string const lost = why_not_first(*launched);
  if (!lost.empty()) std::cerr << "note: --kit: " << lost << '\n';
  write_kit(launch_of(*launched), *question.kit);
}

/// Prints each warning once. If a warning starts, up to "; ", as the one before it, only the rest
/// is printed.
void print_warnings(PlanQuestion const& question) {
  std::set<std::string> said;
  std::string before;
  for (PlanOptions const& options : question.clusters) {
    for (std::string const& warning : options.warnings) {
      if (!said.insert(warning).second) continue;
      std::size_t const end = warning.find("; ");
      std::string const start = end == std::string::npos ? "" : warning.substr(0, end + 2);
      bool const is_more = !start.empty() && start == before;
      std::cerr << "warning: " << (is_more ? warning.substr(end + 2) : warning) << '\n';
      before = start;
    }
  }
}

extern "C" void end_interrupted(int /*signal*/) {
  constexpr std::string_view text = "\nstagecraft plan: interrupted, nothing was written\n";
  [[maybe_unused]] ssize_t const written = ::write(STDERR_FILENO, text.data(), text.size());
  constexpr int exit_of_interrupt = 130;  // 128 + SIGINT, as shells have it
  ::_exit(exit_of_interrupt);
}

/// While it lives, SIGINT says that nothing was written. A process that ignores it goes on to.
class InterruptNotice {
 public:
  InterruptNotice() : before_{std::signal(SIGINT, end_interrupted)} {
    if (before_ == SIG_IGN) std::signal(SIGINT, SIG_IGN);
  }
  ~InterruptNotice() { std::signal(SIGINT, before_); }
  InterruptNotice(InterruptNotice const&) = delete;
  InterruptNotice(InterruptNotice&&) = delete;
  InterruptNotice& operator=(InterruptNotice const&) = delete;
  InterruptNotice& operator=(InterruptNotice&&) = delete;

 private:
  void (*before_)(int);
};

int run_plan(CommandLine const& line) {
  std::optional<InterruptNotice> interrupts{std::in_place};
  PlanQuestion const question = read_plan_question(line);
  print_warnings(question);
  require_outputs(question);
  // Which shapes and orders are slow to search is not known before.
  std::optional<ProgressBar> bar{std::in_place, Pace::uneven};
  PlanAnswer const answer =
      plan_as_asked(question, [&](char const* part, double share, double count) {
        bar->show(part, share, count, "plans");
      });
  bar.reset();
  interrupts.reset();
  if (question.json) std::cout << to_json(answer, question).dump(1) << '\n';
  if (answer.best.empty()) {
    for (ClusterAnswer const& cluster : answer.clusters) {
      std::cerr << "stagecraft plan: " << near_miss_text(cluster.result, *cluster.options) << '\n';
    }
    return exit_does_not_fit;
  }
  if (!question.json) {
    std::cout << plan_text(answer, question, standard_output_style().width);
  }
  write_outputs(answer, question);
  return 0;
}

}  // namespace

PlanAnswer plan_as_asked(PlanQuestion const& question, CommandProgress const& progress) {
  PlanAnswer answer;
  answer.clusters.reserve(question.clusters.size());
  for (PlanOptions const& options : question.clusters) {
    std::string const where =
        question.clusters.size() > 1 ? name_of_cluster(options) + ": " : std::string{};
    SearchRequest request = options.request;
    request.progress = [&](SearchProgress const& state) {
      // Considered while bounds are computed, simulated afterwards.
      bool const bounds = state.part == SearchProgress::Part::bounds;
      constexpr std::array<char const*, 4> parts{"bounding", "simulating", "searching shapes",
                                                 "searching orders"};
      progress((where + parts.at(static_cast<std::size_t>(state.part))).c_str(), state.done,
               static_cast<double>(bounds ? state.considered : state.simulated));
    };
    auto const begin = std::chrono::steady_clock::now();
    SearchResult result = search_plans(request);
    if (result.considered == 0) refuse_empty_space(options);
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
    answer.clusters.push_back({&options, std::move(result), seconds.count()});
  }
  rank_plans(answer, question.rank);
  return answer;
}

Command plan_command() {
  return {
      .name = "plan",
      .summary = "the fastest layouts, schedules and recompute policies that fit",
      .introduction = R"(usage: stagecraft plan MODEL --system S --gpus N --global-batch B [options]

Searches tensor, sequence, pipeline, data, context and expert parallelism, schedules,
microbatch sizes, layer layouts, recompute policies and kinds of sharding for the fastest plans
that fit in memory and leave a margin. Every number is what `stagecraft simulate` gives for that
plan. Lists of systems and numbers are compared in one table.
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
  stagecraft plan llama3-8b --system dgx-h100 --gpus 64 --global-batch 256 --sharding any \
    --set model.sequence=8192
  stagecraft plan llama2-7b --system dgx-h100,b200-hgx --gpus 16,8 --global-batch 64 \
    --price dgx-h100=2.5,b200-hgx=5 --rank cost --report clusters.html --kit launch
)",
      .options = joined_options({plan_options(), operating_options()}),
      .argument = model_value("MODEL.yaml"),
      .run = run_plan};
}

}  // namespace stagecraft
