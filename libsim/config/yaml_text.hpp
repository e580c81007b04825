#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace stagecraft {

/// A JSON value as YAML for people: maps with one key per line, small maps of scalars in braces,
/// and quotes only if plain text would be read as something else. parse_yaml() reads it back.
std::string yaml_text(nlohmann::ordered_json const& value);

}  // namespace stagecraft
