#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// Reads a run file. `overrides` are KEY=VALUE with dotted keys, as --set takes them; values are
/// YAML.
///
/// `model`, `system` and `software` may be maps or the names of files, relative to the file that
/// names them, or names of configs/models, configs/systems and configs/software (`selene-a100`);
/// one that an override names may also be relative to the current folder. An override may set a key
/// of such a file
/// (`model.layers=4`), and of a section written as one word (`schedule.p2p=overlapped`).
/// \throws ConfigError  with every problem of the file: place, key, found, accepted. A problem of a
///         key in a file that an override causes is at the override.
RunConfig load_run_config(std::filesystem::path const& path,
                          std::vector<std::string> const& overrides);

/// Where a problem is reported that an override causes at a key of a file.
enum class OverrideProblems : std::uint8_t { at_key, at_override };

/// Like load_run_config(), for text in memory. `origin` names it in messages; files that the text
/// names are looked for in the folder of `origin`.
RunConfig parse_run_config(std::string_view text,
                           std::filesystem::path const& origin,
                           std::vector<std::string> const& overrides,
                           OverrideProblems place = OverrideProblems::at_key);

/// Reads a file that holds the keys below `model` directly, or one of configs/models by name.
/// \throws ConfigError  with every problem of the file.
ModelConfig load_model_file(std::filesystem::path const& path);

/// Reads a file that holds the keys below `system` directly, or one of configs/systems by name.
/// \throws ConfigError  with every problem of the file.
System load_system_file(std::filesystem::path const& path);

/// Reads a file that holds the keys below `software` directly, or one of configs/software by name.
/// \throws ConfigError  with every problem of the file.
Software load_software_file(std::filesystem::path const& path);

}  // namespace stagecraft
