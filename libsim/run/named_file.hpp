#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// The file that `text` names: a file, or a name of configs/FOLDER without its ending, such as
/// `selene-a100` of `systems`. A file of that name in `beside` comes first; an absolute text is
/// taken as it is. Returns `beside / text` if there is neither.
std::filesystem::path named_file(std::string const& text,
                                 std::string const& folder,
                                 std::filesystem::path const& beside);

/// The names of configs/FOLDER, ascending; empty if the folder is not there.
std::vector<std::string> names_of(std::string const& folder);

/// The file that is given on a command line: a file, or a name of one of `folders` of configs
/// without its ending, such as `175b-present` of `paper`.
/// \throws ConfigError  with the names, if it is neither and could be a misspelt name.
std::filesystem::path file_on_command_line(std::filesystem::path const& given,
                                           std::vector<std::string> const& folders);

/// The folders of configs that hold run files.
std::vector<std::string> const& run_folders();

/// parse_yaml_file() of named_file(). For a text that may be a misspelt name, the message has the
/// names.
std::optional<YamlNode> parse_named_file(std::string const& text,
                                         std::string const& folder,
                                         std::filesystem::path const& beside,
                                         Place const& referrer,
                                         std::string const& key,
                                         Diagnostics& diagnostics);

}  // namespace stagecraft
