#include "libsim/export/job_groups.hpp"

#include <utility>

namespace stagecraft {

namespace {

void add_collective(std::map<std::string, CollectiveOp>& collectives, Op const& op) {
  if (is_collective(op.kind))
    collectives.emplace(to_string(op.name), CollectiveOp{op.kind, op.group});
}

}  // namespace

std::map<std::string, CollectiveOp> collectives_of(TrainingPlan const& plan) {
  std::map<std::string, CollectiveOp> collectives;
  for (BlockProgram const& block : plan.blocks) {
    for (Op const& op : block.forward) add_collective(collectives, op);
    for (Op const& op : block.backward) add_collective(collectives, op);
  }
  for (StagePlan const& rank : plan.stages) {
    for (Op const& op : rank.step_ops) add_collective(collectives, op);
  }
  return collectives;
}

JobGroups::JobGroups(TrainingPlan const& plan)
    : tensor_{plan.config.parallel.tensor},
      data_{plan.config.parallel.data},
      pipeline_{plan.config.parallel.pipeline},
      kv_replicas_{plan.shape.kv_replicas()} {}

std::vector<std::int32_t> JobGroups::members_of(CollectiveGroup group, std::int32_t rank) const {
  std::int32_t const tensor = rank % tensor_;
  std::int32_t const data = rank / tensor_ % data_;
  std::int32_t const stage = rank / ranks_a_stage();
  std::vector<std::int32_t> members;
  for (std::int32_t other = 0; other < ranks(); ++other) {
    bool const same_tensor = other % tensor_ == tensor;
    bool const same_data = other / tensor_ % data_ == data;
    std::int32_t const other_stage = other / ranks_a_stage();
    bool const same_stage = other_stage == stage;
    bool is_member = true;
    switch (group) {
      case CollectiveGroup::tensor:
        is_member = same_stage && same_data;
        break;
      case CollectiveGroup::kv_replicas:
        is_member =
            same_stage && same_data && other % tensor_ / kv_replicas_ == tensor / kv_replicas_;
        break;
      case CollectiveGroup::data:
        is_member = same_stage && same_tensor;
        break;
      case CollectiveGroup::embedding:
        is_member = same_tensor && same_data && (other_stage == 0 || other_stage == pipeline_ - 1);
        break;
      case CollectiveGroup::model:
        is_member = same_data;
        break;
      case CollectiveGroup::job:
        break;
    }
    if (is_member) members.push_back(other);
  }
  return members;
}

std::int32_t JobGroups::number_of(CollectiveGroup group, std::int32_t rank) {
  auto const [found, is_new] = numbers_.emplace(std::make_pair(group, rank), -1);
  if (!is_new) return found->second;
  std::vector<std::int32_t> members = members_of(group, rank);
  // The same for every member: that of the first.
  std::int32_t number = 0;
  if (members.front() == rank) {
    number = static_cast<std::int32_t>(members_.size());
    members_.push_back(std::move(members));
  } else {
    number = number_of(group, members.front());
  }
  numbers_[{group, rank}] = number;
  return number;
}

}  // namespace stagecraft
