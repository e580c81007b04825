#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/launch/launch_framework.hpp"
#include "libsim/report/operation.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// One --fix, or an option that stands for one.
struct FixOption {
  std::string text;    ///< NAME=VALUE[,VALUE...]
  SearchFilter alone;  ///< the filter of this option alone
  std::string_view option = "--fix";
};

/// What `stagecraft plan` is asked of one cluster: a system with a number of accelerators, and a
/// recipe for products in 8 bits if several are compared.
struct PlanOptions {
  SearchRequest request;
  std::string system;            ///< as the command line calls it
  std::vector<FixOption> fixes;  ///< request.filter consists of these
  std::vector<std::string> warnings;
  std::vector<std::string> overrides;  ///< each --set
  /// The run that is searched without one of them, to find what was wrong with it; nullopt if that
  /// is none.
  std::function<std::optional<TrainingConfig>(std::string const&)> base_without;
  OperatingRates rates;
  LaunchFramework const* launchable = nullptr;  ///< only what this one can run; null: any
  /// Without it: that of the software stack, of which the best plan is also shown; null: none.
  LaunchFramework const* stack_framework = nullptr;
  std::string stack_gap;  ///< what it cannot say of the model; empty: nothing

  int node_size() const { return request.system.node.accelerators.value; }
};

/// The figure by which plans of several clusters are ranked. For one cluster, all figures give the
/// same order.
enum class PlanRank : std::uint8_t {
  iteration,  ///< seconds
  tokens,     ///< per second and accelerator
  cost,       ///< per token, interruptions counted
  energy,     ///< per token
};

/// The options of `stagecraft plan`.
struct PlanQuestion {
  /// At least one; no two have the same system, number and recipe.
  std::vector<PlanOptions> clusters;
  PlanRank rank = PlanRank::iteration;
  bool json = false;
  bool shows_all = false;    ///< as many lines as there are, instead of one screen
  bool shows_front = false;  ///< the table of time against memory
  std::string command_line;
  std::optional<std::filesystem::path> output;  ///< the best plan's run file
  std::optional<std::filesystem::path> page;    ///< HTML
  std::optional<std::filesystem::path> kit;     ///< a folder
};

/// The words of --rank.
constexpr char const* name_of(PlanRank rank) {
  switch (rank) {
    case PlanRank::tokens:
      return "tokens";
    case PlanRank::cost:
      return "cost";
    case PlanRank::energy:
      return "energy";
    case PlanRank::iteration:
      break;
  }
  return "iteration";
}

/// " in 8 bits (current)"; empty without a recipe
std::string in_recipe(PlanOptions const& options);

/// "16 x dgx-h100", or "16 x dgx-h100 in 8 bits (current)"
std::string name_of_cluster(PlanOptions const& options);

/// The share of a device that a plan leaves free beside the reserve unless --margin says otherwise:
/// fragmentation and the framework's own memory vary.
inline constexpr double usual_margin = 0.05;

/// The framework whose settings are printed.
inline LaunchFramework const& printed_framework(PlanOptions const& options) {
  if (options.launchable) return *options.launchable;
  return options.stack_framework ? *options.stack_framework : usual_framework();
}

}  // namespace stagecraft
