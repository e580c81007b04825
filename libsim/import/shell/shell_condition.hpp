#pragma once

#include <optional>
#include <vector>

#include "libsim/import/shell/shell_tokens.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// Whether the tokens between `if` and `then` hold: `[ ]` or `[[ ]]` with = == != -eq -ne -lt -le
/// -gt -ge -z -n, `!`, `&&` and `||`. Returns nullopt if that depends on files, on other commands,
/// or on variables that the script does not set (which -z and -n take as empty).
std::optional<bool> holds(std::vector<ShellToken> const& condition,
                          ShellVariables const& variables);

}  // namespace stagecraft
