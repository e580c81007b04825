#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// The sections of a run file that may be one word, each with the key whose value the word is.
std::map<std::string, std::string, std::less<>> const& run_word_keys();

/// If `key` may name a file and `section`, its value, does: replaces `section` by the content of
/// that file, which is looked for in `folder`. Returns false if that fails; `diagnostics` then says
/// why.
bool open_reference(YamlNode& section,
                    std::string const& key,
                    std::filesystem::path const& folder,
                    Diagnostics& diagnostics);

/// open_reference() for all keys of a run file that may name one.
void open_references(YamlNode& root, std::filesystem::path const& folder, Diagnostics& diagnostics);

/// Reads the tree of a run file in which references were replaced by the files' contents.
/// \throws ConfigError  with the problems that `diagnostics` already has and all others.
RunConfig read_run_tree(YamlNode const& root, Diagnostics diagnostics);

}  // namespace stagecraft
