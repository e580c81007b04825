#pragma once

#include <string>

#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// The machine of a trace as ASTRA-sim's analytical backend takes it, for `ranks` ranks: the links
/// of a node are one dimension of the network, the adapters between nodes another.
///
/// Bandwidth and latency of a dimension are those with which a ring takes as long as our cost model
/// says for an all-gather of 64 and of 256 MiB; between nodes those of a message. ASTRA-sim's GB
/// are 2^30 bytes.
/// Pre: ranks >= 1.
/// Source: astra-sim/astra-network-analytical, input/*.yml and NetworkFunction.cpp.
std::string astra_sim_network(System const& system, int ranks);

/// Its configuration of a system: rings everywhere, one collective of a dimension at a time.
/// Source: astra-sim 518bd51, examples/system/native_collectives.
std::string astra_sim_system(System const& system, int ranks);

}  // namespace stagecraft
