#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// One run file: what is trained, how, and on what.
struct RunConfig {
  TrainingConfig training;
  System system;
  std::vector<std::string> warnings;  ///< each with its place; settings without effect
};

/// Reads a run file. `overrides` are KEY=VALUE with dotted keys, as --set takes them; values are YAML.
///
/// `model` and `system` may be maps or name files, relative to the file that names them.
/// \throws ConfigError  with every problem of the file: place, key, found, accepted.
RunConfig load_run_config(std::filesystem::path const& path, std::vector<std::string> const& overrides);

/// The effective configuration as YAML: every key, defaults filled in, model and system in place, so
/// that it loads from any folder and gives the same plan.
std::string to_yaml(RunConfig const& config);

}  // namespace stagecraft
