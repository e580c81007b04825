#pragma once

#include <string>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// A value on one line, as a person would write it: `selective`, `{granularity: full, layers: 2}`.
std::string line_text(YamlNode const& node);

/// The same value as YAML in one line, which loads again; different values have different texts.
std::string exact_text(YamlNode const& node);

}  // namespace stagecraft
