#include "apps/stagecraft/plan/plan_launchable.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/search/module_policies.hpp"
#include "libsim/search/policy_codes.hpp"

namespace stagecraft {

namespace {

bool is_of_vocabulary(std::string const& gap) {  // files of the user's own say it
  return gap.starts_with("model.vocabulary");
}

/// Other frameworks that can run the model: "megatron-core, ".
std::string others_for(TrainingConfig const& config, LaunchFramework const& framework) {
  std::string names;
  for (LaunchFramework const& other : launch_frameworks()) {
    bool const can_run = std::ranges::all_of(other.gaps_of_model(config), is_of_vocabulary);
    if (&other != &framework && can_run) names += std::string{other.name} + ", ";
  }
  return names;
}

}  // namespace

void read_launchable(std::string const& text, PlanOptions& options) {
  LaunchFramework const& framework = *framework_named(text);
  options.launchable = &framework;
  options.request.is_wanted = [&framework,
                               node = options.node_size()](TrainingConfig const& config) {
    return is_launchable(config, framework, node);
  };
  std::vector<ShardingKind>& kinds = options.request.filter.sharding;
  if (kinds.empty()) kinds.assign(framework.kinds.begin(), framework.kinds.end());
  // The schedules that its flags name.
  std::vector<ScheduleKind>& schedules = options.request.filter.schedule;
  if (schedules.empty()) schedules = {ScheduleKind::one_f_one_b, ScheduleKind::interleaved};
  Software const& stack = options.request.system.software;
  std::string_view const described = described_stack(stack);
  // Stacks of Megatron-LM are its versions.
  bool const is_variant = !framework.flags && framework_of_stack(described) == &framework;
  if (described != framework.stack && !is_variant) {
    options.warnings.push_back(
        "--launchable " + text + ": times and memory are those of the software '" + stack.name +
        "'; --software " + std::string{framework.stack} + " has those of that framework");
  }
  if (framework.take_order != nullptr) {
    std::string const change = framework.take_order(options.request.base);
    if (!change.empty()) options.warnings.push_back("--launchable " + text + ": " + change);
  }
  std::string gaps;
  for (std::string const& gap : framework.gaps_of_model(options.request.base)) {
    if (is_of_vocabulary(gap)) {
      options.warnings.push_back("--launchable " + text +
                                 " cannot run this model as it is: " + gap);
    } else {
      gaps += (gaps.empty() ? "" : "; ") + gap;
    }
  }
  if (gaps.empty()) return;
  std::string const others = others_for(options.request.base, framework);
  throw CommandLineError{"--launchable",
                         "'" + text + "', which can run no plan of this model (" + gaps + ")",
                         others + (others.empty() ? "" : "or ") +
                             "no --launchable: the flags of a plan then say what they leave out"};
}

void seek_launchable(PlanOptions& options) {
  LaunchFramework const* const framework =
      framework_of_stack(described_stack(options.request.system.software));
  if (!framework) return;
  options.stack_framework = framework;
  TrainingConfig base = options.request.base;
  std::string const change =
      framework->take_order != nullptr ? framework->take_order(base) : std::string{};
  for (std::string const& gap : framework->gaps_of_model(base)) {
    if (is_of_vocabulary(gap)) continue;
    options.stack_gap = gap;
    return;
  }
  options.request.base = std::move(base);
  if (!change.empty()) {
    options.warnings.push_back("flags of " + std::string{framework->name} + ": " + change);
  }
  options.request.is_launchable = [framework,
                                   node = options.node_size()](TrainingConfig const& config) {
    return is_launchable(config, *framework, node);
  };
}

void check_modules(PlanOptions& options) {
  SearchRequest& request = options.request;
  LaunchFramework const& framework = printed_framework(options);
  std::vector<PolicyCode> const sets = module_policies(request);
  if (!sets.empty()) {
    TrainingConfig run = request.base;
    run.recompute = {RecomputePolicy{}};
    auto const gaps = [&] { return gaps_of_choices(run, framework, options.node_size()).size(); };
    std::size_t const without = gaps();
    run.recompute = {policy_of(sets.front())};
    request.recomputes_modules = gaps() <= without;
  }
  bool const is_alone = request.filter.recompute == std::vector{RecomputeKind::modules};
  if (!is_alone || !module_policies(request).empty()) return;
  throw CommandLineError{"--fix",
                         "'recompute=modules', sets of modules that " +
                             std::string{framework.title} +
                             " cannot choose for this model in this precision",
                         "the other policies"};
}

}  // namespace stagecraft
