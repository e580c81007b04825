#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// If `section`, a model, a system or a software stack, has the key `base`: replaces it by the
/// content of the file that the key names, with the section's own keys in place of the file's.
/// `base` is a file, relative to `beside`, or a name of configs/FOLDER; that file may have a base
/// too.
///
/// A constant is replaced whole, with its source. Not inherited: `validated`; `name` (default:
/// `default_name`; none if that is empty); measured rates (`bus_bandwidth`) of a network or node if
/// the section gives other rates; `device` if the section names another accelerator.
///
/// Returns false if a base cannot be read; `diagnostics` then says why, at `key`.
bool apply_base(YamlNode& section,
                std::string const& key,
                std::string const& folder,
                std::filesystem::path const& beside,
                std::string const& default_name,
                Diagnostics& diagnostics);

/// Adds the keys of `base` that `section` lacks: sections of constants entry by entry, constants
/// whole.
void add_inherited(YamlNode& section, YamlNode const& base);

/// A section `software` of a run without `name` and `base` changes constants of the default stack.
void complete_software(YamlNode& root, Diagnostics& diagnostics);

}  // namespace stagecraft
