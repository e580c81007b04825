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

}  // namespace

FrameworkMemory stack_memory(TrainingPlan const& plan, System const& system) {
  FrameworkMemory memory =
      framework_memory(system.software, system.accelerator.compute_capability.value);
  if (memory.workspace > Bytes{0}) {
    memory.workspace = plan.config.memory.cublas_workspace.value_or(memory.workspace);
  }
  if (memory.host_lead > 0) {
    memory.host_gain = std::max(memory.host_gain, host_pace(plan, system) - 1);
  }
  return memory;
}

}  // namespace stagecraft
