#pragma once

#include <cstdint>
#include <optional>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// What a configuration file describes.
enum class FileKind : std::uint8_t { run, model, system, sweep };

/// Whether the file is, by keys that no other kind has, of another kind than `wanted`: one problem
/// that says so, in place of one for every key. Nothing where it may be what is wanted.
/// `referrer`: the key that names the file; empty on the command line.
std::optional<Problem> wrong_kind(YamlNode const& root,
                                  FileKind wanted,
                                  std::string const& referrer);

}  // namespace stagecraft
