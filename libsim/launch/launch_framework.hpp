#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/launch/launch_job.hpp"

namespace stagecraft {

/// A framework for which `plan` writes what starts a plan.
struct LaunchFramework {
  std::string_view name;      ///< as --launchable calls it
  std::string_view stack;     ///< whose times and memory its plans have
  std::string_view title;     ///< as people call it
  std::string_view variants;  ///< prefix of other stacks' names that mean this framework
  std::string_view usage;     ///< of its files, lines for people
  std::string_view start;     ///< the script among its files that starts a job
  /// The kinds of sharding that are searched for it; empty: those of the stack.
  std::span<ShardingKind const> kinds{};
  /// Settings of a run that the framework cannot express, each with what it does instead; empty if
  /// there are none. `node`: accelerators of a node.
  std::vector<std::string> (*gaps)(TrainingConfig const&, int node);
  /// Those of the model and of the keys that a search does not choose.
  std::vector<std::string> (*gaps_of_model)(TrainingConfig const&);
  /// Makes a model compute as the framework does where the results are the same, and returns what
  /// that changes; null if there is no such model.
  std::string (*take_order)(TrainingConfig&);
  /// What a search decides, as options of its command line.
  std::string (*layout_flags)(TrainingConfig const&);
  /// The whole run, as options of its command line; null if only files can say it.
  std::string (*flags)(TrainingConfig const&);
  /// What starts a job; `start` is one of them.
  std::vector<LaunchFile> (*files)(LaunchJob const&);
};

/// All of them.
std::span<LaunchFramework const> launch_frameworks();

/// The one for which settings are written if nothing else is said: Megatron-LM of today.
LaunchFramework const& usual_framework();

/// The framework of a name for --launchable; null if there is none.
LaunchFramework const* framework_named(std::string_view name);

/// The framework that a software stack describes, its own variants included; null if there is none.
LaunchFramework const* framework_of_stack(std::string_view stack);

/// Settings that a search chooses and that the framework cannot express. `node`: accelerators of a
/// node.
std::vector<std::string> gaps_of_choices(TrainingConfig const& config,
                                         LaunchFramework const& framework,
                                         int node);
/// Whether the framework can run all that a search chooses: the run has no gaps but those of its
/// model. `node`: accelerators of a node.
bool is_launchable(TrainingConfig const& config, LaunchFramework const& framework, int node);

}  // namespace stagecraft
