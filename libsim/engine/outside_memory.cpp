#include "libsim/engine/outside_memory.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "libsim/hardware/software.hpp"

namespace stagecraft {
namespace {

/// The buffers of reductions in the switch; 0 B if the system has none.
Bytes multicast_of(DeviceUse const& use, Software const& software) {
  Bytes const own = software.communicators.multicast.value;
  bool const is_used = use.multicast.value > Bytes{0};
  return is_used && own > Bytes{0} ? own : use.multicast.value;
}

/// The buffers of one rank's communicators.
class CommunicatorBuffers {
 public:
  CommunicatorBuffers(DeviceUse const& use, System const& system, RankId rank)
      : use_{use},
        nccl_{system.software.communicators},
        multicast_{multicast_of(use, system.software)},
        per_node_{system.node.accelerators.value},
        rank_{rank} {}

  std::int64_t of_collectives(std::vector<RankId> const& members) const {
    auto const local = std::count_if(members.begin(), members.end(),
                                     [this](RankId member) { return is_on_node(member); });
    bool const crosses_nodes = local < static_cast<std::ptrdiff_t>(members.size());
    std::int64_t const network = use_.network_buffers.value.count();
    std::int64_t bytes = 0;
    if (local > 1) {
      std::int64_t const neighbours = local > 2 && nccl_.trees.value ? 2 : 1;
      bytes += neighbours * use_.node_channels.value * use_.node_buffers.value.count();
    }
    if (local > 2 && multicast_ > Bytes{0}) {
      bytes += local * multicast_.count();
      bytes += neighbours_in_tree(members) * nccl_.multicast_channels.value * network;
    }
    if (crosses_nodes) bytes += use_.network_channels.value * network;
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

  /// The number of neighbours of a node in NCCL's double binary tree over all nodes: two on
  /// average, because a node is an inner node of one tree and a leaf of the other.
  std::int64_t neighbours_in_tree(std::vector<RankId> const& members) const {
    std::set<int> nodes;
    for (RankId const member : members) nodes.insert(member.value() / per_node_);
    return std::min<std::int64_t>(std::ssize(nodes) - 1, 2);
  }

  DeviceUse const& use_;
  CommunicatorUse const& nccl_;
  Bytes multicast_;
  int per_node_;
  RankId rank_;
};

using Members = std::vector<RankId>;

/// The ranks of a rank's node in a job of `ranks` ranks.
Members node_members(System const& system, int ranks, RankId rank) {
  int const per_node = system.node.accelerators.value;
  int const first = rank.value() / per_node * per_node;
  Members members;
  for (int r = first; r < std::min(first + per_node, ranks); ++r) members.emplace_back(r);
  return members;
}

/// The ranks of all stages that have the same place as a rank on all other axes.
Members stage_members(TrainingPlan const& plan, RankId rank) {
  Members members;
  for (StagePlan const& stage : plan.stages) {
    members.push_back(plan.groups.at_stage(rank, stage.stage));
  }
  return members;
}

/// The members of each communicator of a rank. Groups of the same ranks share one.
std::set<Members> shared_communicators(TrainingPlan const& plan,
                                       System const& system,
                                       RankId rank) {
  CommunicatorUse const& use = system.software.communicators;
  std::set<Members> shared;
  for (GroupId const id : plan.groups.ids()) {
    if (use.of_all.value > 0 && id == plan.roles.job) continue;
    if (plan.groups.members(id) < 2) continue;
    if (auto membership = plan.groups.membership(id, rank)) {
      shared.insert(std::move(membership->members));
    }
  }
  if (use.of_node.value) shared.insert(node_members(system, plan.groups.ranks(), rank));
  if (use.of_stages.value) shared.insert(stage_members(plan, rank));
  std::erase_if(shared, [](Members const& members) { return members.size() < 2; });
  return shared;
}

/// The stages with which a stage exchanges activations.
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
  std::set<Members> const shared = shared_communicators(plan, system, rank);
  result.communicator_count = static_cast<int>(shared.size());
  for (Members const& members : shared) result.communicators += buffers.of_collectives(members);
  int const of_all = system.software.communicators.of_all.value;
  if (of_all > 0 && plan.groups.ranks() > 1) {
    auto const everyone = plan.groups.membership(plan.roles.job, rank);
    result.communicator_count += of_all;
    result.communicators += of_all * buffers.of_collectives(everyone->members);
  }
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

bool keeps_reserve(MemoryConfig const& memory, System const& system) {
  return memory.reserve || !system.device || !decides_by_allocator(system.software);
}

Bytes fullest_host(TrainingPlan const& plan, System const& system) {
  if (plan.config.offload == Offload{}) return Bytes{0};
  int const per_node = system.node.accelerators.value;
  Bytes fullest;
  Bytes of_node;
  for (RankId const rank : plan.groups.rank_ids()) {
    if (rank.value() % per_node == 0) of_node = Bytes{0};
    of_node += plan.stages[plan.groups.stage_of(rank)].host_bytes();
    fullest = std::max(fullest, of_node);
  }
  return fullest;
}

}  // namespace stagecraft
