#pragma once

namespace stagecraft {

/// Where the network between nodes is narrower than their adapters: above units of nodes, which may
/// be those below one leaf switch, a scalable unit or a pod.
///
/// Within a unit each adapter reaches every other at its rate. A unit of N nodes has
/// N / oversubscription nodes' bandwidth to the rest of the network.
struct NetworkTopology {
  double oversubscription = 1;  ///< bandwidth from the nodes into a unit over that out of it
  int nodes_per_unit = 0;       ///< 0: as leaf_ports and rails say, or one unit of all nodes
  int leaf_ports = 0;           ///< ports of a leaf switch for adapters; 0: not given
  bool rails = false;           ///< with leaf_ports: a node has each adapter on a leaf of its own

  friend bool operator==(NetworkTopology const&, NetworkTopology const&) = default;
};

}  // namespace stagecraft
