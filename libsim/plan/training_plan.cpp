#include "libsim/plan/training_plan.hpp"

#include <algorithm>

namespace stagecraft {

Bytes TrainingPlan::message_bytes() const {
  return Bytes{shape.local_sequence() * shape.micro * shape.model.hidden *
               element_size(activation_type(shape.model.precision))};
}

Bytes TrainingPlan::sent_bytes() const {
  return scatters_messages() ? Bytes{message_bytes().count() / shape.tensor} : message_bytes();
}

bool TrainingPlan::scatters_messages() const {
  return config.schedule.scatter_gather && !shape.sequence_parallel && shape.tensor > 1;
}

StateBuffer const& StagePlan::state_of(TensorId tensor) const {
  return state.at(static_cast<std::size_t>(std::ranges::find(state, tensor, &StateBuffer::tensor) -
                                           state.begin()));
}

Bytes StagePlan::state_bytes(Category category) const {
  Bytes sum;
  for (StateBuffer const& buffer : state) {
    if (buffer.category == category && !buffer.is_on_host()) sum += buffer.bytes();
  }
  return sum;
}

Bytes StagePlan::host_bytes() const {
  Bytes sum = offloaded;
  for (StateBuffer const& buffer : state) {
    if (buffer.is_on_host()) sum += buffer.bytes();
  }
  return sum;
}

std::vector<GroupId> TrainingPlan::gradient_groups() const {
  std::vector<GroupId> made;
  for (GroupId const group : groups.ids()) {
    if (groups[group].holders) made.push_back(group);
  }
  return made;
}

GroupId TrainingPlan::holders_of(Parameter const& parameter) const {
  return parameter.holders.value_or(roles.gradients);
}

RecomputePolicy const& policy_of(TrainingConfig const& config, StageId stage) {
  return config.recompute.size() == 1 ? config.recompute.front() : config.recompute[stage.index()];
}

std::vector<TaskBlock> blocks_in_order(Programs const& programs, Task const& task) {
  std::vector<std::int32_t> const& all =
      programs.chunks[static_cast<std::size_t>(task.program)].blocks;
  std::vector<TaskBlock> blocks;
  blocks.reserve(static_cast<std::size_t>(task.block_count));
  for (std::int32_t i = 0; i < task.block_count; ++i) {
    auto const position = static_cast<std::size_t>(task.first_block) + static_cast<std::size_t>(i);
    blocks.push_back({static_cast<std::size_t>(all[position]), position});
  }
  if (task.kind != Task::Kind::forward) std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

}  // namespace stagecraft
