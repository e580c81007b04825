#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// One run file: what is trained, how, and on what.
struct RunConfig {
  TrainingConfig training;
  System system;
  std::vector<std::string> warnings;  ///< of settings without effect, each with its place
};

/// Reads a run file. `overrides` are KEY=VALUE with dotted keys, as --set takes them; values are
/// YAML.
///
/// `model`, `system` and `software` may be maps or the names of files, relative to the file that
/// names them, or names of configs/models, configs/systems and configs/software (`selene-a100`);
/// one that an override names may also be relative to the current folder. An override may set a key
/// of such a file
/// (`model.layers=4`), and of a section written as one word (`schedule.p2p=overlapped`).
/// \throws ConfigError  with every problem of the file: place, key, found, accepted.
RunConfig load_run_config(std::filesystem::path const& path,
                          std::vector<std::string> const& overrides);

/// Like load_run_config(), for text in memory. `origin` names it in messages; files that the text
/// names are looked for in the folder of `origin`.
RunConfig parse_run_config(std::string_view text,
                           std::filesystem::path const& origin,
                           std::vector<std::string> const& overrides);

/// Reads a file that holds the keys below `model` directly, or one of configs/models by name.
/// \throws ConfigError  with every problem of the file.
ModelConfig load_model_file(std::filesystem::path const& path);

/// Reads a file that holds the keys below `system` directly, or one of configs/systems by name.
/// \throws ConfigError  with every problem of the file.
System load_system_file(std::filesystem::path const& path);

/// Reads a file that holds the keys below `software` directly, or one of configs/software by name.
/// \throws ConfigError  with every problem of the file.
Software load_software_file(std::filesystem::path const& path);

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
