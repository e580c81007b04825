#pragma once

namespace stagecraft {

/// Where the ranks of a collective are.
struct NodeSpread {
  int ranks = 1;
  int per_node = 1;  ///< ranks of the group on one node
  int stride = 1;    ///< nodes from one node of the group to its next one
  /// Nodes side by side that send at the same time, for groups like this one: as many as `stride`,
  /// but those of a stage if the group joins stages.
  int abreast = stride;

  int nodes() const { return (ranks + per_node - 1) / per_node; }
  /// Ranks on the node with the fewest, which the others wait for.
  int fewest() const { return ranks % per_node == 0 ? per_node : ranks % per_node; }
};

}  // namespace stagecraft
