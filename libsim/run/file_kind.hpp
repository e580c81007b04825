#pragma once

#include <cstdint>
#include <optional>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// What a configuration file describes.
enum class FileKind : std::uint8_t { run, model, system, software, sweep };

/// If the file has keys that only another kind than `wanted`, or the file of another program, has:
/// one problem that says so, instead of one for every key. Returns nullopt if the file may be of
/// the wanted kind. `referrer` is the key that names the file; it is empty on the command line.
std::optional<Problem> wrong_kind(YamlNode const& root,
                                  FileKind wanted,
                                  std::string const& referrer);

}  // namespace stagecraft
