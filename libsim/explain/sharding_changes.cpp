#include "libsim/explain/sharding_changes.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "libsim/ranks/unit_groups.hpp"
#include "libsim/training/sharding/sharding_reader.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

Change change_to(std::string setting, std::string what, std::string undoes = {}) {
  return {.what = std::move(what), .set = {std::move(setting)}, .undoes = std::move(undoes)};
}

bool contains(auto const& kinds, ShardingKind kind) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

/// "zero2", or "zero2, reductions beside the backward": how reductions run is said if that is not
/// as the kind does by itself.
std::string kind_text(Sharding const& sharding) {
  std::string name{name_of(sharding.kind)};
  if (sharding.overlap == sharding.traits().overlap) return name;
  return name +
         (sharding.overlap ? ", reductions beside the backward" : ", reductions between passes");
}

Change change_of(Sharding const& sharding, std::string what, std::string undoes = {}) {
  nlohmann::ordered_json const value = short_json(sharding);
  std::string const text = value.is_string() ? value.get<std::string>() : value.dump();
  return change_to("sharding=" + text, std::move(what), std::move(undoes));
}

/// A change to another kind, which keeps the run's values of the keys that both kinds have.
Change change_of_kind(Sharding const& now, Sharding const& other) {
  switch (other.traits().shares) {
    case SharedState::optimizer:
      return change_of(
          other, "the optimizer's state sharded alone",
          now.kind == ShardingKind::none ? "" : std::string{name_of(now.kind)} + " sharding");
    case SharedState::parameters:
      return change_of(other, "parameters sharded, too (" + kind_text(other) + ")");
    default:
      return change_of(other, "gradients sharded, and parameters not (" + kind_text(other) + ")");
  }
}

/// The kinds of the run's framework that share out another part of the state than the run does. If
/// the run does not say how reductions run, and a kind knows two ways, both.
void append_kinds(std::vector<Change>& changes,
                  TrainingConfig const& config,
                  Software const& software) {
  Sharding const& now = config.sharding;
  // Units have neither stages nor groups of experts.
  bool const may_share_all = config.parallel.pipeline == 1 && config.parallel.expert == 1;
  for (ShardingKind const kind : kinds_of_framework(now.kind, software)) {
    // Megatron-LM's switch is memory.distributed_optimizer.
    if (now.traits().is_in_megatron() && traits_of(kind).is_in_megatron()) continue;
    SharedState const shared = traits_of(kind).shares;
    if (kind == ShardingKind::none || shared == now.traits().shares) continue;
    if (traits_of(kind).has_units() && !may_share_all) continue;
    Sharding other = as_kind(now, kind);
    changes.push_back(change_of_kind(now, other));
    if (!other.traits().has_buckets() || now.traits().has_buckets()) continue;
    other.overlap = !other.overlap;
    changes.push_back(change_of_kind(now, other));
  }
}

/// What else of the activations the host may have: what half of the layers save, or the largest
/// inputs of modules. What the run cannot be combined with, its check refuses.
void append_activations(std::vector<Change>& changes, TrainingConfig const& config) {
  Offload const& now = config.offload;
  auto const append = [&](std::string const& value, std::string what) {
    // A run that offloads already keeps its other keys.
    changes.push_back(change_to((now == Offload{} ? "offload={activations: " + value + "}"
                                                  : "offload.activations=" + value),
                                std::move(what)));
  };
  int const half = static_cast<int>(config.model.layers / 2);
  if (half > 0 && config.parallel.pipeline == 1 && now.activations.layers != half) {
    append("{layers: " + std::to_string(half) + "}",
           "offload activations of " + std::to_string(half) + " layers");
  }
  OffloadModules attention;
  attention.insert(OffloadModule::core_attn);
  attention.insert(OffloadModule::attn_proj);
  OffloadModules experts;
  experts.insert(OffloadModule::expert_fc1);
  experts.insert(OffloadModule::moe_act);
  if (now.activations.modules != attention) {
    append("{modules: [core_attn, attn_proj]}", "offload attention's operands");
  }
  if (has_experts(config.model) && now.activations.modules != experts) {
    append("{modules: [expert_fc1, moe_act]}", "offload the inputs of experts");
  }
}

}  // namespace

std::vector<ShardingKind> kinds_of_framework(ShardingKind kind, Software const& software) {
  std::vector<ShardingKind> const& stacks = software.replicas.sharding.value;
  if (kind == ShardingKind::none || contains(stacks, kind)) return stacks;
  std::vector<ShardingKind> of_same;
  for (ShardingTraits const& row : all_sharding_kinds) {
    if (row.framework == traits_of(kind).framework) of_same.push_back(row.kind);
  }
  return of_same;
}

std::vector<Change> sharding_changes(TrainingConfig const& config, System const& system) {
  Sharding const& now = config.sharding;
  ParallelLayout const& layout = config.parallel;
  int const replicas = layout.data * layout.context;
  std::vector<Change> changes;
  if (replicas == 1) return changes;
  append_kinds(changes, config, system.software);
  if (now.traits().has_buckets()) {
    changes.push_back(now.overlap
                          ? change_to("sharding.overlap=false", "reductions between passes",
                                      "reductions beside the backward")
                          : change_to("sharding.overlap=true", "reductions beside the backward"));
  }
  if (!now.shares_parameters()) return changes;
  if (now.reshard_after_forward.kind == Reshard::Kind::no) {
    changes.push_back(change_to("sharding.reshard_after_forward=auto", "reshard after forward",
                                "parameters kept after forward"));
  } else if (now.traits().may_keep_gathered) {
    changes.push_back(
        change_to("sharding.reshard_after_forward=false", "no reshard after forward"));
  }
  if (now.group != 0 && now.group != replicas) {
    changes.push_back(
        change_to("sharding.group=0", "units shared by all replicas", "copies of units"));
  } else if (int const group = unit_group_of_node(layout, system.node.accelerators.value);
             group > 0) {
    std::string const ranks = std::to_string(group);
    changes.push_back(change_to("sharding.group=" + ranks, "units shared by the " + ranks +
                                                               " ranks of a node, copies beyond"));
  }
  if (microbatches(config) > 1 && !now.traits().reduces_every) {
    bool const is_last = now.sync == UnitSync::last;
    changes.push_back(change_to(is_last ? "sharding.sync=every" : "sharding.sync=last",
                                is_last ? "gradients reduced in every microbatch"
                                        : "gradients reduced in the last microbatch"));
  }
  return changes;
}

std::vector<Change> offload_changes(TrainingConfig const& config, System const& system) {
  Offload const& now = config.offload;
  std::vector<Change> changes;
  if (now != Offload{}) {
    bool const has_optimizer = now.optimizer > 0;
    changes.push_back(
        change_to("offload=none",
                  has_optimizer ? "the whole optimizer on the accelerator"
                                : "all activations on the accelerator",
                  has_optimizer ? "optimizer state on the host" : "activations on the host"));
  }
  bool const has_link = system.node.host_memory.value > Bytes{0} &&
                        system.accelerator.host_link.value.bandwidth.value > 0;
  if (has_link && config.sharding.traits().is_in_megatron()) append_activations(changes, config);
  bool const may = config.sharding.traits().may_offload_optimizer &&
                   config.model.precision == Precision::bf16 &&
                   config.memory.moments_dtype == StateType::fp32;
  if (!may || !has_link || system.node.host_adam.value == 0) return changes;
  for (auto const& [fraction, text, what] :
       {std::tuple{0.5, "0.5", "offload half of the optimizer"},
        {1.0, "1", "offload the optimizer"}}) {
    if (fraction == now.optimizer) continue;
    // A run that offloads already keeps its other keys.
    changes.push_back(
        now == Offload{}
            ? change_to("offload={optimizer: " + std::string{text} + ", overlap: true}", what)
            : change_to("offload.optimizer=" + std::string{text}, what));
  }
  if (now.optimizer > 0 && !now.overlap) {
    changes.push_back(change_to("offload.overlap=true", "copies to the host beside its updates"));
  }
  return changes;
}

}  // namespace stagecraft
