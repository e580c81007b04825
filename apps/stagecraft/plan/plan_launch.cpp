#include "apps/stagecraft/plan/plan_launch.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "apps/program/output_paths.hpp"
#include "apps/stagecraft/plan/plan_figures.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {
namespace {

constexpr int text_width = 90;

/// Whether the router has neither a loss nor a bias that keeps the loads of its experts even.
bool has_unbalanced_experts(ModelConfig const& model) {
  return std::ranges::any_of(layer_runs(model), [](LayerRun const& run) {
    if (!run.kind.experts) return false;
    RouterConfig const& router = run.kind.experts->router;
    return router.loss == RouterLoss::none && !router.bias;
  });
}

/// What is started, for the first lines of a file.
std::string about(LaunchedPlan const& launched) {
  FoundPlan const& plan = *launched.plan;
  PlanOptions const& options = *launched.plan.options;
  std::string text = parameters_text(plan.config.model) + " on " + name_of_cluster(options) +
                     ": predicted " + decimals(to_seconds(plan.simulation.iteration), 3) +
                     " s per iteration, " + decimals(plan.simulation.tokens_per_second, 0) +
                     " tokens/s, with " + gibibytes(free_bytes(plan)) +
                     " GiB left on the fullest device.";
  for (std::string const& gap : launched.framework->gaps(plan.config, options.node_size())) {
    text += "\nThe flags do not say: " + gap;
  }
  if (has_unbalanced_experts(plan.config.model)) {
    text +=
        "\nNothing balances the experts' loads here, and the prediction is of balanced ones. Such "
        "a loss is what --set model.experts.router.loss=auxiliary and "
        "model.experts.router.loss_coefficient say; that of a config.json is router_aux_loss_coef.";
  }
  std::string const lost = why_not_first(launched);
  if (!lost.empty()) text += "\n" + lost;
  return wrapped_lines(text + "\nMade by stagecraft " + program_version() + ".", text_width);
}

/// What the files are, a line each.
std::string list_of(std::vector<LaunchFile> const& files) {
  constexpr std::size_t name_width = 19;
  std::string list;
  for (LaunchFile const& file : files) {
    std::string name = file.name;
    name.resize(std::max(name_width, name.size() + 1), ' ');
    list += name + file.about + "\n";
  }
  return list;
}

/// "train-6.74B"
std::string job_name(ModelConfig const& model) {
  std::istringstream words{parameters_text(model)};
  std::string number;
  std::string unit;
  words >> number >> unit;
  return "train-" + number + (unit == "billion" ? "B" : unit == "million" ? "M" : "K");
}

}  // namespace

bool is_first(LaunchedPlan const& launched, PlanAnswer const& answer) {
  ShownPlan const& first = answer.best.front();
  return launched.plan->config == first->config && launched.plan.cluster == first.cluster;
}

std::string why_not_started(LaunchedPlan const& launched,
                            ShownPlan const& fastest,
                            std::string const& name) {
  // Each cluster has a stack of its own, and so a framework.
  LaunchFramework const& framework = printed_framework(*fastest.options);
  double const less = 100 * (1 - to_seconds(fastest->simulation.iteration) /
                                     to_seconds(launched.plan->simulation.iteration));
  std::vector<std::string> missing = framework.gaps(fastest->config, fastest.options->node_size());
  std::vector<std::string> const common =
      launched.framework->gaps(launched.plan->config, launched.plan.options->node_size());
  std::erase_if(missing, [&](std::string const& gap) {
    return std::ranges::find(common, gap) != common.end();
  });
  std::string const gaps = joined(missing, "; ");
  return name + " takes " + decimals(std::abs(less), 1) + " % " + (less < 0 ? "more" : "less") +
         (gaps.empty() ? ""
                       : ", but cannot be started: " + std::string{framework.title} +
                             " has no flags for " + gaps);
}

std::string why_not_first(LaunchedPlan const& launched) {
  FoundPlan const& plan = *launched.plan;
  FoundPlan const& first = launched.plan.cluster->result.best.front();
  if (plan.config == first.config) return "";
  return why_not_started(launched, {&first, launched.plan.options, launched.plan.cluster},
                         "The fastest plan on this cluster") +
         ".";
}

std::optional<LaunchedPlan> launched_plan(ClusterAnswer const& cluster) {
  if (!cluster.has_plans()) return std::nullopt;
  PlanOptions const& options = *cluster.options;
  if (options.launchable) {
    return LaunchedPlan{{&cluster.result.best.front(), &options, &cluster}, options.launchable};
  }
  if (!options.stack_framework || !cluster.result.best_launchable) return std::nullopt;
  return LaunchedPlan{{&*cluster.result.best_launchable, &options, &cluster},
                      options.stack_framework};
}

std::optional<LaunchedPlan> launched_plan(PlanAnswer const& answer, PlanRank rank) {
  std::optional<LaunchedPlan> best;
  for (ClusterAnswer const& cluster : answer.clusters) {
    auto const launched = launched_plan(cluster);
    if (!launched) continue;
    if (!best || demerit_of(launched->plan, rank) < demerit_of(best->plan, rank)) best = launched;
  }
  return best;
}

Launch launch_of(LaunchedPlan const& launched) {
  FoundPlan const& plan = *launched.plan;
  System const& system = launched.plan.options->request.system;
  LaunchFramework const& framework = *launched.framework;
  // A stack whose norms are single kernels is compiled.
  bool const is_compiled = !system.software.kernels.traffic.value.contains(OpKind::norm);
  LaunchJob const job{.config = plan.config,
                      .is_compiled = is_compiled,
                      .node_size = launched.plan.options->node_size(),
                      .name = job_name(plan.config.model),
                      .about = about(launched)};
  Launch launch{.framework = std::string{framework.name},
                .command = "bash " + std::string{framework.start},
                .files = framework.files(job)};
  launch.files.push_back(
      {"run.yaml",
       origin_line(OutputKind::run, "plan") + to_yaml(RunConfig{plan.config, system, {}}),
       "the run for stagecraft: simulate, explain, fit"});
  launch.files.push_back(
      {"README.txt", job.about + "\n" + list_of(launch.files) + "\n" + std::string{framework.usage},
       ""});
  return launch;
}

nlohmann::ordered_json to_json(Launch const& launch) {
  auto files = nlohmann::ordered_json::object();
  for (LaunchFile const& file : launch.files) files[file.name] = file.text;
  return {{"framework", launch.framework}, {"command", launch.command}, {"files", files}};
}

void write_kit(Launch const& launch, std::filesystem::path const& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw std::runtime_error{"could not make the folder " + folder.string() + ": " +
                             error.message()};
  }
  FileSet files;
  for (LaunchFile const& file : launch.files) {
    files.write(folder / file.name, [&](OutputFile& output) { output.write(file.text); });
  }
  files.keep();
}

}  // namespace stagecraft
