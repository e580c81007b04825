#include "libsim/engine/stack_memory.hpp"

#include <algorithm>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/player/block_times.hpp"

namespace stagecraft {
namespace {

/// The time of the layers' passes over the host's time to issue them; 1 if the host is slower.
double host_pace(TrainingPlan const& plan, System const& system) {
  CostModel const cost{system, plan};
  SimTime passes{0};
  SimTime host{0};
  for (BlockProgram const& block : plan.programs.blocks) {
    if (block.kind != BlockProgram::Kind::layers) continue;
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      passes += time_pass(block, pass, cost).duration;
      for (Op const& op : block.ops(pass)) host += cost.host_time(op);
    }
  }
  if (host == SimTime{0}) return 1;
  return std::max(1.0, to_seconds(passes) / to_seconds(host));
}

/// Whether Transformer Engine takes FlashAttention's kernel, not cuDNN's, for attention that is
/// not split between ranks: before Hopper, and where cuDNN's has no deterministic backward pass
/// with dropout (Blackwell). Source: Transformer Engine d0067d0d,
/// pytorch/attention/dot_product_attention/utils.py, get_attention_backend, and
/// common/fused_attn/fused_attn.cpp, nvte_get_fused_attn_backend.
bool takes_flash_attention(TrainingConfig const& config, int compute_capability) {
  constexpr int ampere = 8;
  constexpr int blackwell = 10;
  if (compute_capability < ampere || config.parallel.context > 1) return false;
  if (compute_capability == ampere) return true;
  return compute_capability >= blackwell && config.deterministic &&
         attention_dropout(config.model) > 0;
}

/// The part of the layers whose attention's output, and with it the copy, is on the device at the
/// end of a forward. Of modules one layer's comes back at a time, which is not counted.
double attention_on_device(TrainingConfig const& config) {
  ActivationOffload const& offload = config.offload.activations;
  if (offload.modules.has(OffloadModule::core_attn)) return 1 - offload.fraction;
  return 1 - static_cast<double>(offload.layers) / static_cast<double>(config.model.layers);
}

}  // namespace

FrameworkMemory stack_memory(TrainingPlan const& plan, System const& system) {
  FrameworkMemory memory =
      framework_memory(system.software, system.accelerator.compute_capability.value);
  if (memory.workspace > Bytes{0}) {
    memory.workspace = plan.config.memory.cublas_workspace.value_or(memory.workspace);
  }
  bool const has_router = has_experts(plan.config.model);
  if (has_router && memory.shared_workspace == Bytes{0}) {
    memory.shared_workspace = memory.router_workspace;
  }
  if (memory.transposes_attention &&
      takes_flash_attention(plan.config, system.accelerator.compute_capability.value)) {
    memory.kept[OpKind::flash_attention] += attention_on_device(plan.config);
  }
  if (memory.host_lead > 0) {
    memory.host_gain = std::max(memory.host_gain, host_pace(plan, system) - 1);
  }
  return memory;
}

}  // namespace stagecraft
