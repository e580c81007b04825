#include "libsim/search/module_policies.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/training/training_config_checks.hpp"

namespace stagecraft {
namespace {

using Regions = std::vector<RecomputeRegion const*>;

/// The modules of the ops of a model's layers.
std::set<std::string_view> modules_of_layers(ModelConfig const& model) {
  BlockShape const shape{.model = model};
  std::set<std::string_view> modules;
  for (LayerRun const& run : layer_runs(model)) {
    BlockProgram const block = build_layers(shape.with(run.kind), 1, RecomputePolicy{});
    for (Op const& op : block.ops(Pass::forward)) modules.insert(op.module);
  }
  return modules;
}

/// The regions that the model has and a run may recompute: with each of them it has no more
/// problems than without.
Regions regions_of(TrainingConfig config) {
  std::set<std::string_view> const modules = modules_of_layers(config.model);
  // To check an order of passes takes long, and it does not matter here.
  config.schedule = ScheduleConfig{};
  config.parallel.pipeline = config.parallel.interleave = 1;
  config.layout = LayerSplit{};
  config.recompute = {RecomputePolicy{}};
  std::size_t const without = problems_of(config).size();
  auto const is_legal = [&](RecomputeRegion const& region) {
    config.recompute = {
        {.granularity = RecomputeGranularity::selective, .modules = {std::string{region.name}}}};
    return problems_of(config).size() <= without;
  };
  Regions regions;
  for (RecomputeRegion const& region : recompute_regions()) {
    bool const is_there = std::ranges::any_of(
        region.modules, [&](std::string_view module) { return modules.contains(module); });
    if (is_there && is_legal(region)) regions.push_back(&region);
  }
  return regions;
}

/// Whether a region has all modules of another one and more.
bool is_around(RecomputeRegion const* outer, RecomputeRegion const* inner) {
  return outer->modules.size() > inner->modules.size() &&
         std::ranges::all_of(inner->modules, [&](std::string_view module) {
           return std::ranges::find(outer->modules, module) != outer->modules.end();
         });
}

bool is_usual(RecomputeRegion const* region) {
  return RecomputePolicy{}.modules == std::vector{std::string{region->name}};
}

std::int32_t bit_of(RecomputeRegion const* region) {
  return std::int32_t{1} << (region - recompute_regions().data());
}

}  // namespace

std::vector<PolicyCode> module_policies(TrainingConfig const& config) {
  Regions const regions = regions_of(config);
  bool const has_scores = config.model.attention != Attention::flash;
  std::int32_t usual = 0;
  std::int32_t discarding = 0;
  std::int32_t inner = 0;
  std::int32_t outer = 0;
  for (RecomputeRegion const* const region : regions) {
    auto const is_around_some = [&](RecomputeRegion const& other) {
      return is_around(region, &other);
    };
    auto const is_inside_some = [&](auto const* other) { return is_around(other, region); };
    std::int32_t const bit = bit_of(region);
    bool const discards = region->kind == RecomputeRegion::Kind::discarded_outputs;
    if (is_usual(region)) {
      usual = has_scores ? bit : 0;
    } else if (std::ranges::any_of(recompute_regions(), is_around_some)) {
      outer |= bit;
    } else {
      (discards ? discarding : inner) |= bit;
      if (!std::ranges::any_of(regions, is_inside_some)) outer |= bit;
    }
  }
  std::vector<PolicyCode> policies;
  for (std::int32_t const set : {discarding, discarding | inner, outer}) {
    PolicyCode const policy{RecomputeKind::modules, set | usual};
    if (set != 0 && (policies.empty() || policies.back() != policy)) policies.push_back(policy);
  }
  return policies;
}

std::vector<PolicyCode> module_policies(SearchRequest const& request) {
  if (!request.recomputes_modules) return {};
  return module_policies(request.base);
}

std::vector<std::string> modules_of(PolicyCode code) {
  std::vector<std::string> names;
  for (RecomputeRegion const& region : recompute_regions()) {
    if ((code.layers & bit_of(&region)) != 0) names.emplace_back(region.name);
  }
  return names;
}

}  // namespace stagecraft
