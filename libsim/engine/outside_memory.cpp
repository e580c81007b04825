#include "libsim/engine/outside_memory.hpp"

#include <algorithm>
#include <set>

namespace stagecraft {
namespace {

/// The buffers of one rank's communicators.
class CommunicatorBuffers {
 public:
  CommunicatorBuffers(DeviceUse const& use, System const& system, RankId rank)
      : use_{use}, per_node_{system.node.accelerators.value}, rank_{rank} {}

  std::int64_t of_collectives(std::vector<RankId> const& members) const {
    auto const local = std::count_if(members.begin(), members.end(),
                                     [this](RankId member) { return is_on_node(member); });
    std::int64_t bytes = 0;
    if (local > 1) bytes += use_.node_channels.value * use_.node_buffers.value.count();
    if (local > 2) bytes += local * use_.multicast.value.count();
    if (local < static_cast<std::ptrdiff_t>(members.size())) {
      bytes += use_.network_channels.value * use_.network_buffers.value.count();
    }
    return bytes;
  }
  std::int64_t of_messages(RankId neighbour) const {
    return is_on_node(neighbour) ? use_.node_channels.value * use_.node_buffers.value.count()
                                 : use_.message_channels.value * use_.network_buffers.value.count();
  }

 private:
  bool is_on_node(RankId other) const {
    return other.value() / per_node_ == rank_.value() / per_node_;
  }

  DeviceUse const& use_;
  int per_node_;
  RankId rank_;
};

/// The stages with which one exchanges activations.
std::set<StageId> neighbours_of(TrainingPlan const& plan, StageId stage) {
  std::set<StageId> neighbours;
  for (VirtualStageId const v : plan.placement.virtual_stage_ids()) {
    if (plan.placement.is_first(v)) continue;
    StageId const from = plan.placement.place(previous(v)).stage;
    StageId const to = plan.placement.place(v).stage;
    if (from == stage && to != stage) neighbours.insert(to);
    if (to == stage && from != stage) neighbours.insert(from);
  }
  return neighbours;
}

}  // namespace

std::optional<OutsideMemory> outside_memory(TrainingPlan const& plan,
                                            System const& system,
                                            StagePlan const& stage) {
  if (!system.device) return std::nullopt;
  DeviceUse const& use = *system.device;
  OutsideMemory result{.driver = use.driver.value.count(), .context = use.context.value.count()};
  RankId const rank = plan.groups.at_stage(RankId{0}, stage.stage);
  CommunicatorBuffers const buffers{use, system, rank};
  std::set<std::vector<RankId>> communicators;
  for (GroupId const id : plan.groups.ids()) {
    auto const membership = plan.groups.membership(id, rank);
    if (membership && membership->size() > 1) communicators.insert(membership->members);
  }
  for (std::vector<RankId> const& members : communicators) {
    result.communicators += buffers.of_collectives(members);
  }
  result.communicator_count = static_cast<int>(communicators.size());
  for (StageId const neighbour : neighbours_of(plan, stage.stage)) {
    result.communicators += buffers.of_messages(plan.groups.at_stage(rank, neighbour));
  }
  return result;
}

std::int64_t bytes_outside(TrainingPlan const& plan, System const& system, StagePlan const& stage) {
  MemoryConfig const& memory = plan.config.memory;
  if (memory.reserve) return memory.reserve->count();
  auto const outside = outside_memory(plan, system, stage);
  return outside ? outside->sum() : memory.kept_in_reserve().count();
}

}  // namespace stagecraft
