#include "libexec/executor/kernel_needs.hpp"

#include <set>

namespace stagecraft {

KernelNeeds kernel_needs(TrainingPlan const& plan, RankPlace const& place) {
  std::set<ElementType> types;
  for (BlockProgram const& block : plan.blocks) {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      for (Op const& op : block.ops(pass)) {
        if (traits_of(op.kind).op_class == OpClass::compute) types.insert(op.type);
      }
    }
  }
  return {.tensor_rank = place.tensor,
          .context_rank = place.context,
          .types = {types.begin(), types.end()}};
}

}  // namespace stagecraft
