#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "libsim/config/config_node.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/system.hpp"
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

/// Reads the sections `system` and `software` of a run; what is wrong with them goes to its
/// diagnostics.
System read_machine(ConfigNode const& run);

/// Reads the tree of a run file in which references were replaced by the files' contents.
/// `machine` is what read_machine() returns for this tree, if it is known and without problems.
/// \throws ConfigError  with the problems that `diagnostics` already has and all others.
RunConfig read_run_tree(YamlNode const& root,
                        Diagnostics diagnostics,
                        System const* machine = nullptr);

}  // namespace stagecraft
