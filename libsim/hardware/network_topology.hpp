#pragma once

namespace stagecraft {

/// An oversubscribed network. Nodes form units, such as the nodes of a leaf switch, a scalable unit
/// or a pod.
///
/// Within a unit, adapters reach each other at their full rate. The links from a unit of N nodes to
/// the rest of the network have the bandwidth of N / oversubscription nodes.
struct NetworkTopology {
  double oversubscription = 1;  ///< bandwidth from the nodes into a unit over that out of it
  int nodes_per_unit = 0;       ///< 0: as leaf_ports and rails say, or one unit of all nodes
  int leaf_ports = 0;           ///< ports of a leaf switch for adapters; 0: not given
  bool rails = false;           ///< with leaf_ports: a node has each adapter on a leaf of its own

  friend bool operator==(NetworkTopology const&, NetworkTopology const&) = default;
};

}  // namespace stagecraft
