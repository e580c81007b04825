#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/program/op.hpp"

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

/// How many times longer what a collective sends between nodes takes than at the rate of the
/// adapters, because units of nodes have less bandwidth to the rest of the network than their nodes
/// have (Network::topology): at least 1, at most the oversubscription.
///
/// The groups of a stage fill nodes, and nodes fill units, in the order of their numbers; all
/// groups run the same collective at the same time. A ring (and a tree, which is taken to send as
/// much) goes from node to node in that order, so that of a unit of N nodes s leave it, if the
/// group has every s-th node: s / N of what nodes send passes the border. Of a group that joins
/// stages, those of one stage do (NodeSpread::abreast). In an all-to-all each node sends as much
/// to every other one.
/// Pre: is_collective(kind).
double border_slowdown(OpKind kind, NodeSpread spread, System const& system);

/// The nodes of two pipeline stages that exchange a message: the first node of each, and the number
/// of nodes per stage.
struct StageNodes {
  int from = 0;
  int to = 0;
  int nodes = 1;
};

/// How many times longer a message takes that all ranks of a stage send to their peers in another
/// one. If every stage sends to the next one at the same time, as many nodes of a unit send beyond
/// it as a stage has.
double border_slowdown(StageNodes stages, System const& system);

}  // namespace stagecraft
