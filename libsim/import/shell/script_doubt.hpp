#pragma once

#include <set>
#include <string>
#include <vector>

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// A place from which a script may go on in more than one way, and the flags of its command that
/// depend on it.
struct ScriptDoubt {
  ShellWord place{};
  std::string what{};                ///< as it is written, such as `case $MODEL in`
  std::string note{};                ///< what is done instead
  std::vector<std::string> names{};  ///< variables that decide it and that the script does not set
  /// The flags that may be missing or have other values; `$NAME` for those that a variable may
  /// have.
  std::set<std::string> flags{};
};

}  // namespace stagecraft
