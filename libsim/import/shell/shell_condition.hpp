#pragma once

#include <optional>
#include <vector>

#include "libsim/import/shell/shell_tokens.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// Whether a test holds: `[ ]`, `test` or `[[ ]]` with = == != < > -eq -ne -lt -le -gt -ge -z -n
/// -v, `!`, `&&`, `||`, -a, -o and brackets; the right of == in `[[ ]]` is a pattern. Returns
/// nullopt if that depends on files, on what a command prints, on =~, or on variables that the
/// script does not set (which -z and -n take as empty).
std::optional<bool> holds(std::vector<ShellToken> const& test, ShellVariables const& variables);

/// The variables that the script does not set and that appear in the tokens.
std::vector<std::string> open_names(std::vector<ShellToken> const& tokens,
                                    ShellVariables const& variables);

}  // namespace stagecraft
