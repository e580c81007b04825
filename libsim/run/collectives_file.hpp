#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// Opens the measured tables that a system names under `node` and `network`: a file beside the one
/// that names it (from an override, in the current folder), or one of configs/systems. Such a one
/// keeps its name, others become absolute, so that the configuration can be printed and loaded from
/// any folder. A file is read once in a process. Tables are left out where an override gives other
/// rates of their section.
///
/// Without tables of one node, the times in a node must be given. Problems go to `diagnostics`.
void open_collectives(System& system, ConfigNode const& section, Diagnostics& diagnostics);

}  // namespace stagecraft
