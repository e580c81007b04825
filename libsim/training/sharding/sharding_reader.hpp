#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "libsim/config/config_node.hpp"
#include "libsim/training/offload.hpp"
#include "libsim/training/sharding.hpp"

namespace stagecraft {

/// Section `sharding`: a name, or a map with the key `kind` and those that the kind takes. Reports
/// what is wrong at its place.
Sharding read_sharding(ConfigNode const& section);

/// Key `sharding` of a run, or its short form `memory.distributed_optimizer`, if that is given. If
/// both are given, an override goes before what a file says: run files that were printed have both.
Sharding read_sharding(ConfigNode const& root, std::optional<bool> short_form);

/// The least that read_sharding() makes `sharding` of: the name of its kind, or a map of the kind
/// and of the keys that differ from the kind's values.
nlohmann::ordered_json short_json(Sharding const& sharding);

/// Key `offload`: none, or a map. Reports what is wrong at its place.
Offload read_offload(ConfigNode const& section);

}  // namespace stagecraft
