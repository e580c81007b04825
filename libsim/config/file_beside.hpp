#pragma once

#include <filesystem>
#include <string>

#include "libsim/config/config_node.hpp"

namespace stagecraft {

/// The file that a key names: relative to the file that has the key, or to the current folder.
inline std::filesystem::path file_beside(ConfigNode const& node, std::string const& name) {
  Place const& place = node.place();
  if (place.line == 0 || !place.origin) return name;
  return std::filesystem::path{*place.origin}.parent_path() / name;
}

}  // namespace stagecraft
