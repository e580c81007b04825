#pragma once

#include <vector>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The replicas of a stage that are on the same node and may share units among themselves, of data
/// x context: 0 if there are no two of them, if they do not divide the replicas, or if all replicas
/// are on one node. `node`: accelerators per node.
int unit_group_of_node(ParallelLayout const& layout, int node);

/// The numbers of ranks that may share a unit, as Sharding::group says them: 0, which is all of
/// data x context, then the ranks of a node and twice, four times ... as many, as long as they are
/// fewer than all and divide them. If tensor groups fill the node, the numbers begin with two.
std::vector<int> unit_groups(ParallelLayout const& layout, int node);

}  // namespace stagecraft
