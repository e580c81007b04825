#pragma once

#include <string>
#include <vector>

#include "libsim/run/run_config.hpp"
#include "libsim/validation/data_file.hpp"

namespace stagecraft {

/// The values of keys in a row's effective configuration, with defaults filled in, as text: `8`,
/// `full`. Of `schedule` and `recompute` it is their kind, of `system` its name, of `group` the
/// row's group; empty if the row has no such key. Pre: the row has a run.
std::vector<std::string> regime_values(DataRow const& row, std::vector<std::string> const& keys);

/// Refuses keys for which a row, whose run is known, has no value.
/// \throws ConfigError  naming `--by`, with the nearest key
void require_regime_keys(DataRow const& row, std::vector<std::string> const& keys);

}  // namespace stagecraft
