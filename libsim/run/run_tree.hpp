#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// Sections of a run file that may be written as one word, each with the key that the word is of.
std::map<std::string, std::string, std::less<>> const& run_word_keys();

/// Puts the file that `section`, found at `key`, names in its place, if `key` is one that may name
/// a file and `section` does. It is looked for in `folder`. False where that fails; `diagnostics`
/// then says why.
bool open_reference(YamlNode& section,
                    std::string const& key,
                    std::filesystem::path const& folder,
                    Diagnostics& diagnostics);

/// open_reference() for all keys of a run file that may name one.
void open_references(YamlNode& root, std::filesystem::path const& folder, Diagnostics& diagnostics);

/// Reads the tree of a run file, with the files that it names in place.
/// \throws ConfigError  with the problems that `diagnostics` has already and all others.
RunConfig read_run_tree(YamlNode const& root, Diagnostics diagnostics);

}  // namespace stagecraft
