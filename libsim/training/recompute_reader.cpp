#include "libsim/training/recompute_reader.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/training/training_keys.hpp"

namespace stagecraft {
namespace {

using Granularity = RecomputeGranularity;

/// Reports a key that has no meaning for the granularity, which must not be ignored silently.
void refuse_unless(bool is_used, ConfigNode const& node, std::string_view owner) {
  if (node.exists() && !is_used) {
    node.report_key(node.found(), "this key only with granularity " + std::string{owner});
  }
}

/// Reports settings that early recompute cannot be combined with.
void refuse_early(RecomputePolicy const& policy, ConfigNode const& node) {
  if (policy.early == EarlyRecompute::no) return;
  if (policy.for_weights == WeightRecompute::again) {
    node.child("for_weights").report("keep, as early is bubble");
  }
  if (policy.store_microbatches.automatic) {
    node.child("store_microbatches")
        .report("a number, as early is bubble: where stages recompute depends on what they store");
  }
}

RecomputePolicy read_policy(ConfigNode const& node) {
  RecomputePolicy policy;
  if (!node.exists()) return policy;
  if (node.is_scalar()) {
    auto const word =
        node.name([](std::string_view text) { return value_named<Granularity>(text).has_value(); },
                  accepted_text(std::vector<RecomputePolicy>{}));
    if (word) policy.granularity = *value_named<Granularity>(*word);
    return policy;
  }
  if (!node.is_map()) {
    node.report(accepted_names<Granularity>() + ", or a map with the key granularity");
    return policy;
  }
  SectionReader reader{node};
  visit_keys(reader, policy);
  reader.finish();
  if (!node.child("granularity").is_sound()) return policy;
  bool const is_full = policy.granularity == Granularity::full;
  refuse_unless(policy.granularity == Granularity::selective, node.child("modules"), "selective");
  refuse_unless(is_full, node.child("method"), "full");
  refuse_unless(is_full, node.child("layers"), "full");
  refuse_unless(is_full, node.child("sharded_checkpoints"), "full");
  bool const recomputes = policy.granularity != Granularity::none;
  refuse_unless(recomputes, node.child("early_stop"), "selective or full");
  refuse_unless(recomputes, node.child("store_microbatches"), "selective or full");
  refuse_unless(recomputes, node.child("early"), "selective or full");
  refuse_unless(recomputes, node.child("for_weights"), "selective or full");
  refuse_early(policy, node);
  return policy;
}

nlohmann::ordered_json to_json(RecomputePolicy const& policy) {
  SectionWriter writer;
  visit_keys(writer, policy);
  return writer.map();
}

}  // namespace

std::string accepted_text(RecomputedModules<std::vector<std::string> const> /*modules*/) {
  return "a list of " + region_names();
}

void read_field(ConfigNode const& node, RecomputedModules<std::vector<std::string>> modules) {
  if (!node.is_sequence() || node.items().empty()) {
    node.report("a list of " + region_names());
    return;
  }
  modules.names.clear();
  for (ConfigNode const& item : node.items()) {
    auto const name = item.name(find_region, region_names());
    if (!name) continue;
    if (std::find(modules.names.begin(), modules.names.end(), *name) != modules.names.end()) {
      item.report("each module once");
    } else {
      modules.names.push_back(*name);
    }
  }
  sort_regions(modules.names);
}

nlohmann::ordered_json to_json(RecomputedModules<std::vector<std::string> const> modules) {
  return modules.names;
}

void read_field(ConfigNode const& node, StoreMicrobatches& window) {
  if (node.reads("auto")) {
    window.automatic = true;
  } else {
    auto const count = node.integer({0, std::numeric_limits<int>::max()}, "auto, or ");
    window.count = static_cast<int>(count.value_or(0));
  }
}

nlohmann::ordered_json to_json(StoreMicrobatches const& window) {
  if (window.automatic) return "auto";
  return window.count;
}

std::string accepted_text(std::vector<RecomputePolicy> const& /*policies*/) {
  return accepted_names<Granularity>() +
         ", or a map such as {granularity: selective, modules: [core_attention]}";
}

std::vector<RecomputePolicy> read_recompute(ConfigNode const& section) {
  ConfigNode const per_stage = section.child("per_stage");
  if (!per_stage.exists()) return {read_policy(section)};
  SectionReader reader{section};
  reader.take("per_stage");
  reader.finish();
  std::vector<RecomputePolicy> policies;
  for (ConfigNode const& item : per_stage.items()) policies.push_back(read_policy(item));
  if (policies.empty()) {
    per_stage.report("a list with a policy for each stage");
    policies.emplace_back();
  }
  return policies;
}

nlohmann::ordered_json to_json(std::vector<RecomputePolicy> const& policies) {
  if (policies.size() == 1) return to_json(policies.front());
  auto list = nlohmann::ordered_json::array();
  for (RecomputePolicy const& policy : policies) list.push_back(to_json(policy));
  return nlohmann::ordered_json{{"per_stage", list}};
}

}  // namespace stagecraft
