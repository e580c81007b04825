#include "libexec/executor/rank_context.hpp"

#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace stagecraft {

SequencePart sequence_part(TrainingPlan const& plan, RankPlace const& place) {
  return {.rank = place.context, .ranks = plan.shape.context(), .zigzag = plan.shape.is_zigzag()};
}

KernelNeeds kernel_needs(TrainingPlan const& plan, RankId rank) {
  RankPlace const place = place_of(plan.groups, rank);
  std::set<ElementType> types;
  std::vector<AttentionNeed> attention;
  for (BlockProgram const& block : plan.programs.blocks) {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      for (Op const& op : block.ops(pass)) {
        if (traits_of(op.kind).op_class == OpClass::compute) types.insert(op.type);
        if (op.kind != OpKind::flash_attention_backward) continue;
        auto const shape = [&](std::size_t read) { return block.tensor(op.reads[read]).shape; };
        attention.push_back(
            {op.type, std::get<FlashAttributes>(op.attributes), shape(1), shape(2), shape(3)});
      }
    }
  }
  int expert_rank = 0;
  if (plan.roles.expert) expert_rank = plan.groups.membership(*plan.roles.expert, rank)->member;
  return {.tensor_rank = place.tensor,
          .expert_rank = expert_rank,
          .sequence = sequence_part(plan, place),
          .types = {types.begin(), types.end()},
          .attention = std::move(attention)};
}

}  // namespace stagecraft
