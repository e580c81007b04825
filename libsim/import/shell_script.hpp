#pragma once

#include <string>
#include <vector>

#include "libsim/import/shell_words.hpp"

namespace stagecraft {

/// What a script comes to.
struct ScriptOutcome {
  std::vector<ShellWord> command;  ///< the last command with --num-layers, expanded
  /// The value last given to a variable that holds such flags, for scripts that only set it.
  std::vector<ShellWord> flags_of_variable;
  ShellVariables variables;
  std::vector<std::string> notes;  ///< what was not followed
};

/// Follows a script from its first statement to its last: assignments, arrays and `if`. Commands
/// are not run; loops, functions and sourced files are noted and passed over.
ScriptOutcome follow_script(std::vector<ShellToken> tokens, ShellVariables variables);

}  // namespace stagecraft
