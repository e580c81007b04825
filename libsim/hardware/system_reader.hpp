#pragma once

#include <nlohmann/json.hpp>

#include "libsim/config/config_node.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// Reads section `software`. A constant is `{value: ..., source: ..., fitted: no | "on what"}`, or
/// its value alone; each may be left out. Problems go to the node's diagnostics.
Software read_software(ConfigNode const& section);

/// The section in the form that read_software() reads.
nlohmann::ordered_json to_json(Software const& software);

/// The stack of the paper: the library's copy of configs/software/megatron-2022.yaml.
Software const& default_software();

/// Reads section `system`. A constant is `{value: ..., source: ..., fitted: no | "on what"}`, or its
/// value alone; its source is then "given in FILE". A collective is `{latency, bandwidth}` or
/// `{table: [[1 MiB, 92.8 us], ...], ranks: 8}`. A system of which an override changes a constant
/// is not validated, and that constant has no other source than the override. Problems go to the
/// node's diagnostics.
System read_system(ConfigNode const& section);

/// The section in the form that read_system() reads.
nlohmann::ordered_json to_json(System const& system);

}  // namespace stagecraft
