#pragma once

#include <set>
#include <string>
#include <vector>

#include "libsim/import/shell/shell_tokens.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// What following a script found.
struct ScriptOutcome {
  std::vector<ShellWord> command;  ///< the last command with --num-layers, expanded
  /// The last value of a variable with such flags, for scripts that only set the variable.
  std::vector<ShellWord> flags_of_variable;
  ShellVariables variables;
  std::vector<std::string> notes;  ///< what was not followed
};

/// Follows a script from its first statement to its last: assignments, arrays, `if`, loops over
/// words and its own functions. Commands are not run; other loops, `case` and sourced files are
/// noted and skipped.
///
/// A variable that a command sets (`N=$(nproc)`) is one that the script does not set. The variables
/// in `given` have values from the user, which only an assignment that can be settled replaces.
ScriptOutcome follow_script(std::vector<ShellToken> tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given);

}  // namespace stagecraft
