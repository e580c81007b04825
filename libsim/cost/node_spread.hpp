#pragma once

namespace stagecraft {

/// How the ranks of a collective are spread over nodes.
struct NodeSpread {
  int ranks = 1;
  int per_node = 1;  ///< ranks of the group on one node
  int stride = 1;    ///< nodes from one node of the group to its next one
  /// How many neighbouring nodes send at the same time, each for a group like this one: `stride`,
  /// or the nodes of a stage if the group joins stages.
  int abreast = stride;

  int nodes() const { return (ranks + per_node - 1) / per_node; }
  /// Ranks on the node with the fewest, which the others wait for.
  int fewest() const { return ranks % per_node == 0 ? per_node : ranks % per_node; }
};

}  // namespace stagecraft
