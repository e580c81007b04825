#include "apps/stagecraft/plan/plan_launch.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "apps/program/output_paths.hpp"
#include "apps/stagecraft/plan/plan_figures.hpp"
#include "libsim/host/output_file.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/import/frameworks/torchtitan_files.hpp"
#include "libsim/import/megatron/bridge_recipe.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {
namespace {

constexpr int text_width = 90;

/// What is started, for the first lines of a file.
std::string about(LaunchedPlan const& launched) {
  FoundPlan const& plan = *launched.plan;
  PlanOptions const& options = *launched.plan.options;
  std::string text = parameters_text(plan.config.model) + " on " + name_of_cluster(options) +
                     ": predicted " + decimals(to_seconds(plan.simulation.iteration), 3) +
                     " s per iteration, " + decimals(plan.simulation.tokens_per_second, 0) +
                     " tokens/s, with " + gibibytes(free_bytes(plan)) +
                     " GiB left on the fullest device.";
  for (std::string const& gap : launch_gaps(plan.config, launched.framework)) {
    text += "\nThe flags do not say: " + gap;
  }
  std::string const lost = why_not_first(launched);
  if (!lost.empty()) text += "\n" + lost;
  return wrapped_lines(text + "\nMade by stagecraft " + program_version() + ".", text_width);
}

constexpr char const* readme_of_scripts = R"(
torchrun.sh        starts Megatron-LM with torchrun; run it on every node
slurm.sbatch       the same as a Slurm job
flags.txt          the flags in one line
)";
constexpr char const* readme_of_recipe =
    R"(megatron_bridge.py a recipe of Megatron-Bridge, which torchrun starts
)";
constexpr char const* readme_of_run =
    R"(run.yaml           the run for stagecraft: simulate, explain, fit
)";
constexpr char const* readme_of_mock_data = R"(
MEGATRON is the folder of Megatron-LM. The scripts train 50 steps on mock data; DATA and STEPS
replace that: DATA="--data-path ... --tokenizer-type ..." STEPS="--train-iters 10000". A tokenizer
with another vocabulary makes it another model. --lr, --seed and the like are `training` of run.yaml.
When it has run, `stagecraft fit run.yaml --measured TIME` corrects the prediction by one iteration.
)";
constexpr char const* readme_of_data = R"(
MEGATRON is the folder of Megatron-LM of 2022. DATA names your data and the files of the vocabulary,
STEPS how long to train: DATA="--data-path ... --vocab-file ... --merge-file ...". --lr, --seed and
the like are `training` of run.yaml. When it has run, `stagecraft fit run.yaml --measured TIME`
corrects the prediction by one iteration.
)";

constexpr char const* readme_of_torchtitan = R"(
torchrun.sh        starts torchtitan with torchrun; run it on every node
job.toml           the job configuration, of torchtitan 0.2.2; a model that torchtitan has not by
                   name is in a module beside it
)";
constexpr char const* readme_of_torchtitan_data = R"(
TORCHTITAN is the folder of torchtitan 0.2.2 (git checkout v0.2.2): later versions are configured in
Python. The job trains 50 steps on its test data; --training.dataset, --model.hf_assets_path,
--training.steps and the like behind torchrun.sh replace that. When it has run, `stagecraft fit
run.yaml --measured TIME` corrects the prediction by one iteration.
)";

/// "train-6.74B"
std::string job_name(ModelConfig const& model) {
  std::istringstream words{parameters_text(model)};
  std::string number;
  std::string unit;
  words >> number >> unit;
  return "train-" + number + (unit == "billion" ? "B" : unit == "million" ? "M" : "K");
}

}  // namespace

std::string why_not_first(LaunchedPlan const& launched) {
  FoundPlan const& plan = *launched.plan;
  FoundPlan const& first = launched.plan.cluster->result.best.front();
  if (plan.config == first.config) return "";
  double const more =
      100 * (to_seconds(plan.simulation.iteration) / to_seconds(first.simulation.iteration) - 1);
  std::vector<std::string> const gaps = launch_gaps(first.config, launched.framework);
  std::string text = "The fastest plan on this cluster is another (this one takes " +
                     signed_decimals(more, 1) + " %)";
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    text += (i == 0 ? ": " + std::string{title_of(launched.framework)} + " has no flags for "
                    : "; nor for ") +
            gaps[i];
  }
  return text + ".";
}

std::optional<LaunchedPlan> launched_plan(ClusterAnswer const& cluster) {
  if (!cluster.has_plans()) return std::nullopt;
  PlanOptions const& options = *cluster.options;
  if (options.launchable) {
    return LaunchedPlan{{&cluster.result.best.front(), &options, &cluster}, *options.launchable};
  }
  if (!options.stack_framework || !cluster.result.best_launchable) return std::nullopt;
  return LaunchedPlan{{&*cluster.result.best_launchable, &options, &cluster},
                      *options.stack_framework};
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
  auto const version = version_of(launched.framework);
  bool const is_current = version == MegatronVersion::current;
  LaunchJob const job{.config = plan.config,
                      .version = version.value_or(MegatronVersion::current),
                      .node_size = system.node.accelerators.value,
                      .name = job_name(plan.config.model),
                      .about = about(launched)};
  // A stack whose norms are single kernels is compiled.
  bool const is_compiled = !system.software.kernels.traffic.value.contains(OpKind::norm);
  Launch launch{
      .framework = name_of(launched.framework),
      .command = "bash torchrun.sh",
      .files = version ? megatron_launch_files(job) : torchtitan_launch_files(job, is_compiled)};
  std::string readme = job.about + (version ? readme_of_scripts : readme_of_torchtitan);
  if (is_current) {
    launch.files.push_back({"megatron_bridge.py", bridge_recipe(job)});
    readme += readme_of_recipe;
  }
  launch.files.push_back({"run.yaml", origin_line(OutputKind::run, "plan") +
                                          to_yaml(RunConfig{plan.config, system, {}})});
  readme += readme_of_run;
  readme += !version     ? readme_of_torchtitan_data
            : is_current ? readme_of_mock_data
                         : readme_of_data;
  launch.files.push_back({"README.txt", std::move(readme)});
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
