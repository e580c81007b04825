#pragma once

#include <array>
#include <string_view>

namespace stagecraft {

/// A key that users look for in the wrong section of a system file, or under another name (from
/// the trials of new users): the hint "did you mean" names the one that is meant.
struct MisplacedKey {
  std::string_view section;  ///< empty: in none
  std::string_view key;
  std::string_view meant;
};

inline constexpr std::array<MisplacedKey, 23> misplaced_keys{
    {{"", "nics", "network.adapters"},
     {"", "adapters", "network.adapters"},
     {"", "gpus", "node.accelerators"},
     {"", "memory", "accelerator.memory"},
     {"", "bandwidth", "network.bandwidth"},
     {"node", "adapters", "network.adapters"},
     {"node", "nics", "network.adapters"},
     {"node", "network", "network.bandwidth"},
     {"node", "efficiency", "network.efficiency"},
     {"node", "gather_bandwidth", "network.gather_bandwidth"},
     {"node", "memory", "accelerator.memory"},
     {"node", "gpus", "accelerators"},
     {"network", "nics", "network.adapters"},
     {"network", "accelerators", "node.accelerators"},
     {"network", "all_reduce", "network.collectives"},
     {"network", "oversubscription", "network.topology.oversubscription"},
     {"network", "nodes_per_unit", "network.topology.nodes_per_unit"},
     {"network", "leaf_ports", "network.topology.leaf_ports"},
     {"network", "rails", "network.topology.rails"},
     {"accelerator", "accelerators", "node.accelerators"},
     {"accelerator", "bus_bandwidth", "node.bus_bandwidth"},
     {"accelerator", "gemm_efficiency", "calibration.gemm_efficiency"},
     {"accelerator", "sms", "multiprocessors"}}};

}  // namespace stagecraft
