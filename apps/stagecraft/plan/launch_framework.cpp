#include "apps/stagecraft/plan/launch_framework.hpp"

#include <array>

#include "libsim/import/frameworks/torchtitan_files.hpp"
#include "libsim/import/frameworks/torchtitan_gaps.hpp"
#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"

namespace stagecraft {
namespace {

constexpr std::array frameworks{LaunchFramework::megatron_2022, LaunchFramework::megatron_core,
                                LaunchFramework::torchtitan};

}  // namespace

std::optional<LaunchFramework> framework_named(std::string_view name) {
  for (LaunchFramework const framework : frameworks) {
    if (name == name_of(framework)) return framework;
  }
  return std::nullopt;
}

std::optional<LaunchFramework> framework_of_stack(std::string_view stack) {
  if (auto const framework = framework_named(stack)) return framework;
  if (stack.starts_with("torchtitan-")) return LaunchFramework::torchtitan;
  if (stack.starts_with("megatron-")) return LaunchFramework::megatron_2022;
  return std::nullopt;
}

std::vector<std::string> launch_gaps(TrainingConfig const& config, LaunchFramework framework) {
  auto const version = version_of(framework);
  return version ? megatron_gaps(config, *version) : torchtitan_gaps(config);
}

std::vector<std::string> launch_gaps_of_model(TrainingConfig const& config,
                                              LaunchFramework framework) {
  auto const version = version_of(framework);
  return version ? megatron_gaps_of_model(config, *version) : torchtitan_gaps_of_model(config);
}

bool is_launchable(TrainingConfig const& config, LaunchFramework framework) {
  auto const version = version_of(framework);
  if (version) return is_launchable(config, *version);
  return torchtitan_gaps(config).size() == torchtitan_gaps_of_model(config).size();
}

std::string layout_flags(TrainingConfig const& config, LaunchFramework framework) {
  auto const version = version_of(framework);
  return version ? megatron_layout_flags(config, *version) : torchtitan_layout_flags(config);
}

}  // namespace stagecraft
