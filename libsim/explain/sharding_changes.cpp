#include "libsim/explain/sharding_changes.hpp"

#include <string>
#include <tuple>
#include <utility>

#include "libsim/ranks/unit_groups.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

Change change_to(std::string setting, std::string what, std::string undoes = {}) {
  return {.what = std::move(what), .set = {std::move(setting)}, .undoes = std::move(undoes)};
}

}  // namespace

std::vector<Change> sharding_changes(TrainingConfig const& config, int node) {
  Sharding const& now = config.sharding;
  ParallelLayout const& layout = config.parallel;
  int const replicas = layout.data * layout.context;
  std::vector<Change> changes;
  if (replicas == 1) return changes;
  if (!now.shares_parameters()) {
    if (layout.pipeline > 1 || layout.expert > 1) return changes;  // units have neither
    changes.push_back(change_to("sharding=fsdp2", "parameters sharded, too (fsdp2)"));
    return changes;
  }
  changes.push_back(change_to("sharding=distributed_optimizer",
                              "the optimizer's state sharded alone",
                              std::string{name_of(now.kind)} + " sharding"));
  if (now.reshard_after_forward.kind == Reshard::Kind::no) {
    changes.push_back(change_to("sharding.reshard_after_forward=auto", "reshard after forward",
                                "parameters kept after forward"));
  } else {
    changes.push_back(
        change_to("sharding.reshard_after_forward=false", "no reshard after forward"));
  }
  if (now.group != 0 && now.group != replicas) {
    changes.push_back(
        change_to("sharding.group=0", "units shared by all replicas", "copies of units"));
  } else if (int const group = unit_group_of_node(layout, node); group > 0) {
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
    changes.push_back(change_to("offload=none", "the whole optimizer on the accelerator",
                                "optimizer state on the host"));
  }
  bool const may = config.sharding.traits().may_offload_optimizer &&
                   config.model.precision == Precision::bf16 &&
                   config.memory.moments_dtype == StateType::fp32;
  bool const has_host = system.node.host_memory.value > Bytes{0} &&
                        system.node.host_adam.value > 0 &&
                        system.accelerator.host_link.value.bandwidth.value > 0;
  if (!may || !has_host) return changes;
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
  if (now != Offload{} && !now.overlap) {
    changes.push_back(change_to("offload.overlap=true", "copies to the host beside its updates"));
  }
  return changes;
}

}  // namespace stagecraft
