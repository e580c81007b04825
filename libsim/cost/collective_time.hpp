#pragma once

#include <cstdint>

#include "libsim/hardware/system.hpp"
#include "libsim/model/op.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Bytes that a ring moves over each rank's link: (n-1)/n of the whole tensor, twice for an
/// all-reduce.
/// Pre of all functions here: is_collective(kind).
double ring_bytes(OpKind kind, Bytes whole, int ranks);

/// Time of a collective of `ranks` ranks inside one node, on a tensor of `whole` bytes unsharded.
///
/// From a measured table: interpolated in size, straight beyond its ends, and rescaled from the
/// table's number of ranks by the ring's bytes. A table entered for all-reduce only serves the
/// other two halves.
Seconds node_collective_time(OpKind kind, Bytes whole, int ranks, Node const& node);

/// Time of a collective of `ranks` ranks, one a node, over the network: a ring, each step of which
/// pays the network's latency.
Seconds network_collective_time(OpKind kind, Bytes whole, int ranks, Network const& network);

}  // namespace stagecraft
