#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/program/op.hpp"

namespace stagecraft {

/// How the ranks of a collective are spread over nodes.
struct NodeSpread {
  int ranks = 1;
  int per_node = 1;  ///< ranks of the group on one node
  int stride = 1;    ///< nodes from one node of the group to its next one
  /// The number of neighbouring nodes that send at the same time, each for a group like this one:
  /// `stride`, or the nodes of a stage if the group joins stages.
  int abreast = stride;

  int nodes() const { return (ranks + per_node - 1) / per_node; }
  /// The number of ranks on the node with the fewest, for which the others wait.
  int fewest() const { return ranks % per_node == 0 ? per_node : ranks % per_node; }
};

/// The factor by which a collective's traffic between nodes is slower than the adapters allow,
/// because units of nodes have less bandwidth to the rest of the network than their nodes have
/// (Network::topology): at least 1, at most the oversubscription.
///
/// The groups of a stage fill nodes, and nodes fill units, in the order of their numbers. All
/// groups run the same collective at the same time. A ring (and a tree, which is taken to send the
/// same) goes from node to node in that order. If the group has every s-th node, s nodes of a unit
/// of N nodes send beyond it, so that s / N of the traffic passes the border. If the group joins
/// stages, the nodes of one stage do (NodeSpread::abreast). In an all-to-all, each node sends the
/// same amount to every other one.
/// Pre: is_collective(kind).
double border_slowdown(OpKind kind, NodeSpread spread, System const& system);

/// The nodes of two pipeline stages that exchange a message: the first node of each, and the number
/// of nodes per stage.
struct StageNodes {
  int from = 0;
  int to = 0;
  int nodes = 1;
};

/// The factor by which a message from all ranks of a stage to their peers in another stage is
/// slower. If every stage sends to the next one at the same time, the number of a unit's nodes that
/// send beyond it is the number of nodes of a stage.
double border_slowdown(StageNodes stages, System const& system);

}  // namespace stagecraft
