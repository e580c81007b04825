#include "libsim/explain/recompute_changes.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "libsim/model/model_names.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/search/module_policies.hpp"
#include "libsim/search/policy_codes.hpp"
#include "libsim/training/key_values.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

using Granularity = RecomputeGranularity;

/// "stage 3", "stages 0-3, 7". Pre: ascending, not empty.
std::string stages_text(std::vector<std::size_t> const& stages) {
  std::string text;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i + 1;
    while (end < stages.size() && stages[end] == stages[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(stages[i]);
    if (end - i > 1) text += "-" + std::to_string(stages[end - 1]);
    i = end;
  }
  return (stages.size() == 1 ? "stage " : "stages ") + text;
}

/// A policy that recomputes something, with the stages that have it.
struct PolicyUse {
  RecomputePolicy policy;
  std::vector<std::size_t> stages;
};

std::vector<PolicyUse> uses_of(std::vector<RecomputePolicy> const& by_stage) {
  std::vector<PolicyUse> uses;
  for (std::size_t stage = 0; stage < by_stage.size(); ++stage) {
    if (by_stage[stage].granularity == Granularity::none) continue;
    auto const known = std::find_if(uses.begin(), uses.end(), [&](PolicyUse const& use) {
      return use.policy == by_stage[stage];
    });
    PolicyUse& use =
        known == uses.end() ? uses.emplace_back(PolicyUse{by_stage[stage], {}}) : *known;
    use.stages.push_back(stage);
  }
  return uses;
}

/// Collects the changes of a run's recompute. Holds the run's policy of each stage and, for each
/// distinct policy that recomputes, the stages that use it.
class RecomputeChanges {
 public:
  explicit RecomputeChanges(TrainingConfig const& config)
      : config_{config}, by_stage_{config.recompute} {
    if (by_stage_.size() == 1) {
      by_stage_.resize(static_cast<std::size_t>(config.parallel.pipeline), by_stage_.front());
    }
    uses_ = uses_of(by_stage_);
  }

  void add_policies() {
    std::int64_t const chunk = std::max<std::int64_t>(
        1, config_.model.layers / config_.parallel.pipeline / config_.parallel.interleave);
    add_policy("no recompute", "none");
    add_policy("selective recompute", "selective");
    for (PolicyCode const& set : module_policies(config_)) {
      RecomputePolicy const policy = policy_of(set);
      add_policy(
          std::string{module_change} + regions_text(policy.modules),
          "{granularity: selective, modules: " + nlohmann::json(policy.modules).dump() + "}");
    }
    add_policy("full recompute, layer by layer", "full");
    if (chunk > 1) {
      add_policy("full recompute, groups of " + std::to_string(chunk),
                 "{granularity: full, layers: " + std::to_string(chunk) + "}");
      std::string const half = std::to_string(chunk / 2);
      add_policy("full recompute, " + half + " of " + std::to_string(chunk) + " layers",
                 "{granularity: full, method: block, layers: " + half + "}");
    }
    if (config_.parallel.tensor > 1 && !config_.parallel.sequence) {
      add_policy("full recompute, sharded checkpoints",
                 "{granularity: full, sharded_checkpoints: true}");
    }
    for (std::string const granularity : {"selective", "full"}) {
      add_policy(granularity + " recompute, stored window",
                 "{granularity: " + granularity + ", store_microbatches: auto}");
    }
  }

  /// Adds changes that revert one of several policies and leave the others.
  void add_partial_ways_back() {
    if (uses_.size() < 2) return;
    for (PolicyUse const& use : uses_) {
      add_partial("no recompute", use, Granularity::none);
      if (use.policy.granularity == Granularity::full) {
        add_partial("selective recompute", use, Granularity::selective);
      }
    }
  }

  std::vector<Change> finish() && { return std::move(changes_); }

 private:
  /// The choice that a change on every stage reverts; only a change to less recompute reverts one.
  std::string undone_by(std::string const& value) const {
    bool const is_all_full = std::all_of(
        by_stage_.begin(), by_stage_.end(),
        [](RecomputePolicy const& policy) { return policy.granularity == Granularity::full; });
    bool const undoes =
        (value == "none" && !uses_.empty()) || (value == "selective" && is_all_full);
    if (!undoes) return "";
    return uses_.size() == 1 ? use_text(uses_.front()) : "recompute by stage";
  }

  std::string use_text(PolicyUse const& use) const {
    bool const is_everywhere = use.stages.size() == by_stage_.size();
    return policy_text(use.policy) + (is_everywhere ? "" : " on " + stages_text(use.stages));
  }

  /// Whether the run's recompute stops early, which is a matter of its framework: a change keeps
  /// it.
  bool stops_early() const {
    return std::ranges::any_of(
        uses_, [](PolicyUse const& use) { return use.policy.early_stop.value_or(false); });
  }

  /// The value of the key `recompute` with what the run says beside it: its early_stop, and in a
  /// map the modules and the way of keeping checkpoints that its policies of the same granularity
  /// have in common. A granularity alone stands for its defaults, which is a change of these.
  std::string with_run_keys(std::string const& value) const {
    std::string kept;
    bool const is_map = value.back() == '}';
    auto const all_have = [&](Granularity granularity, auto const& property) {
      std::string const name{name_of(granularity)};
      return is_map && value.starts_with("{granularity: " + name) && !uses_.empty() &&
             std::ranges::all_of(uses_, [&](PolicyUse const& use) {
               return use.policy.granularity == granularity && property(use.policy);
             });
    };
    bool const has_modules =
        value.find("modules") == std::string::npos &&
        all_have(Granularity::selective, [&](RecomputePolicy const& policy) {
          return policy.modules == uses_.front().policy.modules && policy.modules != usual_.modules;
        });
    if (has_modules) kept += ", modules: " + nlohmann::json(uses_.front().policy.modules).dump();
    bool const has_shards =
        value.find("sharded_checkpoints") == std::string::npos &&
        all_have(Granularity::full, [](auto const& policy) { return policy.sharded_checkpoints; });
    if (has_shards) kept += ", sharded_checkpoints: true";
    if (stops_early() && value != "none") kept += ", early_stop: true";
    if (kept.empty()) return value;
    if (!is_map) return "{granularity: " + value + kept + "}";
    return value.substr(0, value.size() - 1) + kept + "}";
  }

  void add_policy(std::string const& what, std::string const& value) {
    changes_.push_back(
        {.what = what, .set = {"recompute=" + with_run_keys(value)}, .undoes = undone_by(value)});
  }

  void add_partial(std::string const& what, PolicyUse const& use, Granularity granularity) {
    std::vector<RecomputePolicy> changed = by_stage_;
    RecomputePolicy instead;
    instead.granularity = granularity;
    if (stops_early() && granularity != Granularity::none) instead.early_stop = true;
    for (std::size_t const stage : use.stages) changed[stage] = instead;
    changes_.push_back({.what = what + " on " + stages_text(use.stages),
                        .set = {"recompute=" + to_json(changed).dump()},
                        .undoes = use_text(use),
                        .family = what + " on some stages"});
  }

  TrainingConfig const& config_;
  RecomputePolicy const usual_{};
  std::vector<RecomputePolicy> by_stage_;
  std::vector<PolicyUse> uses_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<Change> recompute_changes(TrainingConfig const& config) {
  RecomputeChanges changes{config};
  changes.add_policies();
  changes.add_partial_ways_back();
  return std::move(changes).finish();
}

std::string policy_text(RecomputePolicy const& policy) {
  std::string text{name_of(policy.granularity)};
  if (policy.granularity == Granularity::none) return "no recompute";
  text += " recompute";
  if (policy.granularity == Granularity::selective) {
    std::string modules;
    for (std::string const& module : policy.modules) {
      modules += (modules.empty() ? " (" : ", ") + module;
    }
    text += modules + ")";
  } else if (policy.method == RecomputeMethod::block) {
    text += " of " + std::to_string(policy.layers) + " layers per chunk";
  } else if (policy.layers > 1) {
    text += " in groups of " + std::to_string(policy.layers);
  }
  if (policy.store_microbatches.automatic || policy.store_microbatches.count > 0) {
    text += " with stored microbatches";
  }
  return text;
}

}  // namespace stagecraft
