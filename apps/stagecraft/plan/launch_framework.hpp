#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The frameworks for which `plan` writes what starts a plan.
enum class LaunchFramework : std::uint8_t { megatron_2022, megatron_core, torchtitan };

/// As --launchable calls it: the name of its software stack.
constexpr char const* name_of(LaunchFramework framework) {
  switch (framework) {
    case LaunchFramework::megatron_2022:
      return "megatron-2022";
    case LaunchFramework::torchtitan:
      return "torchtitan";
    case LaunchFramework::megatron_core:
      break;
  }
  return "megatron-core";
}

/// As people call it.
constexpr std::string_view title_of(LaunchFramework framework) {
  switch (framework) {
    case LaunchFramework::megatron_2022:
      return "Megatron-LM of 2022";
    case LaunchFramework::torchtitan:
      return "torchtitan";
    case LaunchFramework::megatron_core:
      break;
  }
  return "Megatron-LM";
}

/// nullopt: it is not Megatron-LM.
constexpr std::optional<MegatronVersion> version_of(LaunchFramework framework) {
  switch (framework) {
    case LaunchFramework::megatron_2022:
      return MegatronVersion::of_2022;
    case LaunchFramework::megatron_core:
      return MegatronVersion::current;
    case LaunchFramework::torchtitan:
      break;
  }
  return std::nullopt;
}

/// The framework of a name for --launchable; nullopt if there is none.
std::optional<LaunchFramework> framework_named(std::string_view name);

/// The framework that a software stack describes, its own variants included; nullopt if there is
/// none.
std::optional<LaunchFramework> framework_of_stack(std::string_view stack);

/// The settings of a run that the framework's own cannot say; empty if they say everything.
std::vector<std::string> launch_gaps(TrainingConfig const& config, LaunchFramework framework);

/// Those of the model and of the keys that a search does not choose.
std::vector<std::string> launch_gaps_of_model(TrainingConfig const& config,
                                              LaunchFramework framework);

/// Whether the framework can run all that a search chooses: the run has no gaps but those of its
/// model.
bool is_launchable(TrainingConfig const& config, LaunchFramework framework);

/// What the search decides, as options of the framework's command line.
std::string layout_flags(TrainingConfig const& config, LaunchFramework framework);

}  // namespace stagecraft
