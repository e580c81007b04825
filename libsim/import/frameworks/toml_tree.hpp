#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// Parses a TOML document into the tree that YAML has. `origin` names the file in messages. Returns
/// nullopt if it is not TOML; `diagnostics` then says where.
std::optional<YamlNode> parse_toml(std::string_view text,
                                   std::string const& origin,
                                   Diagnostics& diagnostics);

}  // namespace stagecraft
