#include "libsim/launch/launch_framework.hpp"

#include <algorithm>
#include <array>

#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/launch/accelerate_files.hpp"
#include "libsim/launch/bridge_recipe.hpp"
#include "libsim/launch/deepspeed_files.hpp"
#include "libsim/launch/deepspeed_gaps.hpp"
#include "libsim/launch/megatron_files.hpp"
#include "libsim/launch/torchtitan_files.hpp"
#include "libsim/launch/torchtitan_gaps.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view usage_of_megatron_2022 =
    R"(MEGATRON is the folder of Megatron-LM of 2022. DATA names your data and the files of the vocabulary,
STEPS how long to train: DATA="--data-path ... --vocab-file ... --merge-file ...". --lr, --seed and
the like are `training` of run.yaml. When it has run, `stagecraft fit run.yaml --measured TIME`
corrects the prediction by one iteration.
)";
constexpr std::string_view usage_of_megatron_core =
    R"(MEGATRON is the folder of Megatron-LM. The scripts train 50 steps on mock data; DATA and STEPS
replace that: DATA="--data-path ... --tokenizer-type ..." STEPS="--train-iters 10000". A tokenizer
with another vocabulary makes it another model, as does what run.yaml has no key for: `stagecraft
import huggingface` names what a config.json has of that, such as another rope_scaling. --lr, --seed and the like are `training` of run.yaml.
When it has run, `stagecraft fit run.yaml --measured TIME` corrects the prediction by one iteration.
)";
constexpr std::string_view usage_of_torchtitan =
    R"(TORCHTITAN is the folder of torchtitan 0.2.2 (git checkout v0.2.2): later versions are configured in
Python. The job trains 50 steps on its test data; --training.dataset, --model.hf_assets_path,
--training.steps and the like behind torchrun.sh replace that. When it has run, `stagecraft fit
run.yaml --measured TIME` corrects the prediction by one iteration.
)";
constexpr std::string_view usage_of_deepspeed =
    R"(The scripts need transformers 5, accelerate and deepspeed from PyPI. The job trains 50 steps on
random tokens: replace RandomTokens in train.py by your data. When it has run, `stagecraft fit run.yaml --measured TIME` corrects the prediction by one iteration.
)";

constexpr std::string_view usage_of_accelerate =
    R"(The scripts need transformers 5 and accelerate from PyPI. The job trains 50 steps on random tokens:
replace RandomTokens in train.py by your data. When it has run, `stagecraft fit run.yaml --measured
TIME` corrects the prediction by one iteration.
)";
constexpr std::array kinds_of_accelerate{ShardingKind::fsdp1};
constexpr std::array kinds_of_megatron_fsdp{ShardingKind::megatron_fsdp};

template <MegatronVersion version>
constexpr LaunchFramework megatron(std::string_view name,
                                   std::string_view title,
                                   std::string_view variants,
                                   std::string_view usage,
                                   std::vector<LaunchFile> (*files)(LaunchJob const&)) {
  return {.name = name,
          .stack = name,
          .title = title,
          .variants = variants,
          .usage = usage,
          .start = "torchrun.sh",
          .kinds = {},
          .gaps = [](TrainingConfig const& config, int) { return megatron_gaps(config, version); },
          .gaps_of_model =
              [](TrainingConfig const& config) { return megatron_gaps_of_model(config, version); },
          .take_order = take_megatron_order,
          .layout_flags =
              [](TrainingConfig const& config) { return megatron_layout_flags(config, version); },
          .flags = [](TrainingConfig const& config) { return megatron_flags(config, version); },
          .files = files};
}

std::vector<LaunchFile> files_of_megatron_2022(LaunchJob const& job) {
  return megatron_files(job, MegatronVersion::of_2022);
}

std::vector<LaunchFile> files_of_megatron_fsdp(LaunchJob const& job) {
  return megatron_files(job, MegatronVersion::current);
}

std::vector<LaunchFile> files_of_megatron_core(LaunchJob const& job) {
  std::vector<LaunchFile> files = files_of_megatron_fsdp(job);
  if (job.config.sharding.kind == ShardingKind::megatron_fsdp) return files;
  files.push_back({"megatron_bridge.py", bridge_recipe(job),
                   "a recipe of Megatron-Bridge, which torchrun starts"});
  return files;
}

/// What the flags of Megatron-LM say about runs of Megatron-FSDP alone.
constexpr LaunchFramework megatron_fsdp = [] {
  LaunchFramework framework =
      megatron<MegatronVersion::current>("megatron-fsdp", "Megatron-FSDP", "megatron-fsdp-",
                                         usage_of_megatron_core, files_of_megatron_fsdp);
  framework.stack = "megatron-core";
  framework.kinds = kinds_of_megatron_fsdp;
  framework.gaps = [](TrainingConfig const& config, int) {
    std::vector<std::string> gaps = megatron_gaps(config, MegatronVersion::current);
    if (config.sharding.kind != ShardingKind::megatron_fsdp) {
      gaps.emplace_back("sharding: Megatron-FSDP's is megatron_fsdp");
    }
    return gaps;
  };
  return framework;
}();

constexpr std::array frameworks{megatron<MegatronVersion::of_2022>("megatron-2022",
                                                                   "Megatron-LM of 2022",
                                                                   "megatron-",
                                                                   usage_of_megatron_2022,
                                                                   files_of_megatron_2022),
                                megatron<MegatronVersion::current>("megatron-core",
                                                                   "Megatron-LM",
                                                                   "megatron-core-",
                                                                   usage_of_megatron_core,
                                                                   files_of_megatron_core),
                                LaunchFramework{.name = "torchtitan",
                                                .stack = "torchtitan",
                                                .title = "torchtitan",
                                                .variants = "torchtitan-",
                                                .usage = usage_of_torchtitan,
                                                .start = "torchrun.sh",
                                                .gaps = [](TrainingConfig const& config,
                                                           int) { return torchtitan_gaps(config); },
                                                .gaps_of_model = torchtitan_gaps_of_model,
                                                .take_order = nullptr,
                                                .layout_flags = torchtitan_layout_flags,
                                                .flags = nullptr,
                                                .files = torchtitan_files},
                                LaunchFramework{.name = "deepspeed",
                                                .stack = "deepspeed",
                                                .title = "DeepSpeed",
                                                .variants = "deepspeed-",
                                                .usage = usage_of_deepspeed,
                                                .start = "accelerate.sh",
                                                .gaps = [](TrainingConfig const& config,
                                                           int) { return deepspeed_gaps(config); },
                                                .gaps_of_model = deepspeed_gaps_of_model,
                                                .take_order = nullptr,
                                                .layout_flags = deepspeed_layout_flags,
                                                .flags = nullptr,
                                                .files = deepspeed_files},
                                LaunchFramework{.name = "accelerate",
                                                .stack = "fsdp1",
                                                .title = "Accelerate",
                                                .variants = "accelerate-",
                                                .usage = usage_of_accelerate,
                                                .start = "accelerate.sh",
                                                .kinds = kinds_of_accelerate,
                                                .gaps = accelerate_gaps,
                                                .gaps_of_model = accelerate_gaps_of_model,
                                                .take_order = nullptr,
                                                .layout_flags = accelerate_layout_flags,
                                                .flags = nullptr,
                                                .files = accelerate_files},
                                megatron_fsdp};

}  // namespace

std::span<LaunchFramework const> launch_frameworks() { return frameworks; }

LaunchFramework const& usual_framework() { return *framework_named("megatron-core"); }

LaunchFramework const* framework_named(std::string_view name) {
  auto const* const found = std::ranges::find(frameworks, name, &LaunchFramework::name);
  return found == frameworks.end() ? nullptr : found;
}

LaunchFramework const* framework_of_stack(std::string_view stack) {
  if (LaunchFramework const* const framework = framework_named(stack)) return framework;
  LaunchFramework const* found = nullptr;  // that whose variants begin alike for longest
  for (LaunchFramework const& framework : frameworks) {
    bool const is_longer = !found || framework.variants.size() > found->variants.size();
    if (stack.starts_with(framework.variants) && is_longer) found = &framework;
  }
  return found;
}

std::vector<std::string> gaps_of_choices(TrainingConfig const& config,
                                         LaunchFramework const& framework,
                                         int node) {
  std::vector<std::string> gaps = framework.gaps(config, node);
  if (gaps.empty()) return gaps;
  std::vector<std::string> const of_model = framework.gaps_of_model(config);
  std::erase_if(gaps, [&](std::string const& text) {
    return std::ranges::find(of_model, text) != of_model.end();
  });
  return gaps;
}

bool is_launchable(TrainingConfig const& config, LaunchFramework const& framework, int node) {
  return gaps_of_choices(config, framework, node).empty();
}

}  // namespace stagecraft
