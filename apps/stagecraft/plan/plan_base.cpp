#include "apps/stagecraft/plan/plan_base.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/stagecraft/fix_names.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/launch/launch_framework.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/program/low_library.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

/// A key that sets a type of all kinds with units, and the members that hold it.
struct UnitTypeKey {
  std::string_view key;
  std::optional<UnitType> SearchFilter::*type;
  UnitType Sharding::*of_run;
};
constexpr std::array unit_type_keys{
    UnitTypeKey{"sharding.stored_dtype=", &SearchFilter::stored_dtype, &Sharding::stored_dtype},
    UnitTypeKey{"sharding.parameter_dtype=", &SearchFilter::parameter_dtype,
                &Sharding::parameter_dtype},
    UnitTypeKey{"sharding.reduce_dtype=", &SearchFilter::reduce_dtype, &Sharding::reduce_dtype}};

constexpr std::string_view strategy_key = "sharding.strategy=";

/// Whether hold_sharding_keys() deals with a --set.
bool is_held(std::string const& text) {
  return text.starts_with(strategy_key) ||
         std::ranges::any_of(unit_type_keys,
                             [&](UnitTypeKey const& one) { return text.starts_with(one.key); });
}

/// The value of `--set KEY=VALUE`.
template <typename Enum>
Enum held_value(std::string const& text, std::string_view key) {
  auto const value = value_named<Enum>(std::string_view{text}.substr(key.size()));
  if (value) return *value;
  throw CommandLineError{"--set", "'" + text + "'",
                         std::string{key} + " " + accepted_names<Enum>()};
}

void hold_strategy(std::string const& text,
                   SearchRequest& request,
                   std::vector<std::string>& warnings) {
  request.filter.strategy = held_value<ShardingStrategy>(text, strategy_key);
  std::vector<ShardingKind> const& kinds = sharding_kinds(request);
  if (std::ranges::find(kinds, ShardingKind::megatron_fsdp) != kinds.end()) return;
  warnings.push_back("--set " + text +
                     ": not searched is the kind that has strategies (--sharding " +
                     std::string{name_of(ShardingKind::megatron_fsdp)} + ")");
}

/// Whether a kind with units has no such type, as each rank has all its parameters.
bool has_no_type(ShardingKind kind, UnitTypeKey const& key) {
  if (key.type == &SearchFilter::reduce_dtype) return false;
  bool const has_master_type =
      key.type == &SearchFilter::stored_dtype && traits_of(kind).has_main_gradients;
  return has_master_type || !default_sharding(kind).shares_parameters();
}

/// The searched kinds with units that have no such type.
std::string kinds_without(UnitTypeKey const& key, UnitType type, SearchRequest const& request) {
  std::string names;
  if (type == UnitType::automatic) return names;
  for (ShardingKind const kind : sharding_kinds(request)) {
    if (!traits_of(kind).has_units() || !has_no_type(kind, key)) continue;
    names += (names.empty() ? "" : ", ") + std::string{name_of(kind)};
  }
  return names;
}

/// Refuses a type that no run of a searched kind can have. If none of these kinds has such a type,
/// it is one that fsdp2 could have.
void check_type(std::string const& text,
                UnitTypeKey const& key,
                UnitType type,
                SearchRequest const& request) {
  std::vector<ShardingKind> kinds;
  for (ShardingKind const kind : sharding_kinds(request)) {
    if (traits_of(kind).has_units() && !has_no_type(kind, key)) kinds.push_back(kind);
  }
  if (kinds.empty()) kinds.push_back(ShardingKind::fsdp2);
  std::string accepted;
  for (ShardingKind const kind : kinds) {
    TrainingConfig run = request.base;
    run.sharding = default_sharding(kind);
    run.sharding.*key.of_run = type;
    std::vector<Problem> const problems = problems_of(run);
    auto const problem = std::ranges::find_if(
        problems, [&](Problem const& one) { return key.key == one.key + "="; });
    if (problem == problems.end()) return;
    accepted = problem->accepted;
  }
  throw CommandLineError{"--set", "'" + text + "'", std::string{key.key} + " " + accepted};
}

/// Refuses keys that the search sets itself.
void check_override(std::string const& text) {
  if (text.starts_with("offload") && text != "offload=none") {
    throw CommandLineError{"--set", "'" + text + "'",
                           "`offload=none`: plan does not weigh what the host holds"};
  }
  if (!is_searched(text.substr(0, text.find('=')))) return;
  throw CommandLineError{"--set", "'" + text + "', which the search decides",
                         text.starts_with("sharding") ? "--sharding fsdp2, or other kinds"
                                                      : "--fix to hold it, or another key"};
}

constexpr char const* command_line = "the command line";

/// Moves problems in the generated run file to the options of the command line that they come from.
std::vector<Problem> at_options(std::vector<Problem> problems) {
  for (Problem& problem : problems) {
    if (!problem.place.origin || *problem.place.origin != command_line) continue;
    problem.place = {};
    if (problem.key == "system") problem.key = "--system";
    if (problem.key == "model") problem.key = "MODEL";
    if (problem.key == "software") problem.key = "--software";
  }
  return problems;
}

/// The most ranks that split the experts of a layer of the model; 1 without experts.
std::int64_t most_expert_ranks(ModelConfig const& model) {
  std::int64_t most = 1;
  for (LayerRun const& run : layer_runs(model)) {
    if (run.kind.experts) most = std::max(most, run.kind.experts->count);
  }
  return most;
}

/// The run that the search varies, with the first kind of sharding. `experts`: ranks that split the
/// experts; with 1, one sequence on one rank, which is legal for every model.
RunConfig load_base_with(ShardingKind sharding,
                         std::string const& model,
                         std::string const& system,
                         std::optional<std::string> const& software,
                         std::vector<std::string> const& overrides,
                         std::int64_t experts) {
  auto const quoted = [](std::string const& path) {
    return nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  try {
    std::string text = "model: " + quoted(model) + "\nsystem: " + quoted(system) +
                       "\nschedule: {kind: 1f1b}\nbatch: {global: " + std::to_string(experts) +
                       "}\nsharding: " + std::string{name_of(sharding)} + "\n";
    if (experts > 1) {
      std::string const ranks = std::to_string(experts);
      text += "parallel: {data: " + ranks + ", expert: " + ranks + "}\n";
    }
    if (software) text += "software: " + quoted(*software) + "\n";
    return parse_run_config(text, command_line, overrides, OverrideProblems::at_override);
  } catch (ConfigError const& error) {
    throw ConfigError{at_options(error.problems())};
  }
}

/// The same with a kind that the overrides allow: keys such as `low_precision.parameters: low` want
/// the optimizer's state to be shared.
RunConfig load_base(std::string const& model,
                    std::string const& system,
                    std::optional<std::string> const& software,
                    std::vector<std::string> const& overrides,
                    std::int64_t experts) {
  auto const load = [&](ShardingKind kind) {
    return load_base_with(kind, model, system, software, overrides, experts);
  };
  try {
    return load(ShardingKind::none);
  } catch (ConfigError const&) {
    try {
      return load(ShardingKind::distributed_optimizer);
    } catch (ConfigError const&) {
      // The problems of the run without it are the user's.
    }
    throw;
  }
}

/// The same for any values of `routing`, whose bounds depend on how the experts are split.
RunConfig load_base_with_routing(std::string const& model,
                                 std::string const& system,
                                 std::optional<std::string> const& software,
                                 std::vector<std::string> const& overrides) {
  for (std::string const& text : overrides) check_override(text);
  std::vector<std::string> others;
  std::copy_if(overrides.begin(), overrides.end(), std::back_inserter(others),
               [](std::string const& text) { return !text.starts_with("routing"); });
  RunConfig plain = load_base(model, system, software, others, 1);
  if (others.size() == overrides.size()) {
    // The layouts that are searched have counts of their own, as even as they can be.
    plain.training.routing = Routing{};
    std::erase_if(plain.warnings, [](std::string const& warning) {
      return warning.find("routing.factor 1") != std::string::npos;
    });
    return plain;
  }
  return load_base(model, system, software, overrides, most_expert_ranks(plain.training.model));
}

/// The stack of a plan unless --software or --set names one: that of --launchable, else that of the
/// paper on the paper's cluster, and of today elsewhere. nullopt: the run file's default.
std::optional<std::string> default_software(CommandLine const& line, RunConfig const& base) {
  if (line.has("launchable")) {
    return std::string{framework_named(line.value("launchable"))->stack};
  }
  constexpr char const* cluster_of_the_paper = "selene-a100";
  if (base.system.name == cluster_of_the_paper) return std::nullopt;
  return std::string{usual_framework().name};
}

}  // namespace

RunConfig read_plan_base(CommandLine const& line,
                         std::string const& system,
                         std::optional<Recipe> recipe,
                         std::string const& without) {
  std::string const& model = line.arguments().front();
  std::vector<std::string> overrides = line.values_of("set");
  std::erase(overrides, without);
  std::erase_if(overrides, is_held);
  for (std::string const& text : overrides) {
    if (recipe && text.starts_with("low_precision")) {
      throw CommandLineError{"--set", "'" + text + "'",
                             "nothing of low_precision beside --precision"};
    }
  }
  std::optional<std::string> const software = line.find("software");
  RunConfig base = load_base_with_routing(model, system, software, overrides);
  bool const is_chosen = software || std::ranges::any_of(overrides, [](std::string const& text) {
                           return text.starts_with("software=") || text.starts_with("software.");
                         });
  std::optional<std::string> const stack = is_chosen ? software : default_software(line, base);
  if (!is_chosen && stack) base = load_base_with_routing(model, system, stack, overrides);
  if (!recipe) return base;
  LowLibrary const library = base.system.software.kernels.low_precision.value;
  overrides.push_back("low_precision=" + key_value(*recipe, library));
  return load_base_with_routing(model, system, stack, overrides);
}

void hold_sharding_keys(std::vector<std::string> const& overrides,
                        std::optional<Recipe> recipe,
                        SearchRequest& request,
                        std::vector<std::string>& warnings) {
  for (std::string const& text : overrides) {
    if (text.starts_with(strategy_key)) hold_strategy(text, request, warnings);
    for (UnitTypeKey const& one : unit_type_keys) {
      if (!text.starts_with(one.key)) continue;
      auto const type = held_value<UnitType>(text, one.key);
      // A recipe of --precision in which no weights are gathered is left out.
      bool const is_low = type == UnitType::low && one.type == &SearchFilter::parameter_dtype;
      if (!is_low || recipe.value_or(Recipe::none) == Recipe::none) {
        check_type(text, one, type, request);
      }
      request.filter.*one.type = type;
      std::string const without = kinds_without(one, type, request);
      if (!searches_units(request)) {
        warnings.push_back("--set " + text + ": no kind with units is searched (--sharding fsdp2)");
      } else if (!without.empty()) {
        warnings.push_back("--set " + text +
                           ": not searched are the kinds that have no such type: " + without);
      }
    }
  }
}

}  // namespace stagecraft
