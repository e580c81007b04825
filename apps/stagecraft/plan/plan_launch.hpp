#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"
#include "libsim/launch/launch_framework.hpp"

namespace stagecraft {

/// A plan that the flags of a framework can start.
struct LaunchedPlan {
  ShownPlan plan;
  LaunchFramework const* framework = nullptr;  ///< never null
};

/// The best such plan of a cluster; nullopt if there is none.
std::optional<LaunchedPlan> launched_plan(ClusterAnswer const& cluster);

/// The best such plan of all clusters, by the question's rank.
std::optional<LaunchedPlan> launched_plan(PlanAnswer const& answer, PlanRank rank);

/// Whether it is the first plan of an answer.
bool is_first(LaunchedPlan const& launched, PlanAnswer const& answer);

/// How much less time a faster plan takes, and why it cannot be started: "#1 takes 3.0 % less, but
/// cannot be started: Megatron-LM has no flags for ...". `name` names it. Pre: it is another plan.
std::string why_not_started(LaunchedPlan const& launched,
                            ShownPlan const& fastest,
                            std::string const& name);

/// Why it is not the fastest plan of its cluster, in a sentence; empty if it is.
std::string why_not_first(LaunchedPlan const& launched);

/// What starts a plan.
struct Launch {
  std::string framework;  ///< as --launchable calls it
  std::string command;    ///< in the folder of the files
  std::vector<LaunchFile> files;
};
Launch launch_of(LaunchedPlan const& launched);

/// Member `launch` of the document.
nlohmann::ordered_json to_json(Launch const& launch);

/// Writes the files into a new or empty folder: all of them, or none.
/// \throws std::runtime_error
void write_kit(Launch const& launch, std::filesystem::path const& folder);

}  // namespace stagecraft
