#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// One run file: what is trained, how, and on what.
struct RunConfig {
  TrainingConfig training;
  System system;
  std::vector<std::string> warnings;  ///< of settings without effect, each with its place
};

/// The effective configuration, as results have it in their member `config`: every key, with
/// defaults filled in, and model and system in place.
nlohmann::ordered_json to_json(RunConfig const& config);

/// The same as YAML, as --print-config prints it. Loaded from any folder, it gives the same plan
/// and the same text again.
std::string to_yaml(RunConfig const& config);

/// The same as it was read: without the keys that were left to the software stack, so that a change
/// of another key decides them anew.
std::string to_unsettled_yaml(RunConfig const& config);

}  // namespace stagecraft
