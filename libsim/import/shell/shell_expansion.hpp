#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// The words that a written word expands to: variables and arithmetic inserted, quotes removed,
/// what was not quoted split as IFS says. Variables that the script does not set, and outputs of
/// commands other than `seq`, stay as they are written (`$DATA_PATH`), as one word, but `$@`
/// expands to nothing.
/// Source: POSIX.1-2017, Shell Command Language, section 2.6, without file names and tildes.
std::vector<ShellWord> expand(ShellWord const& written, ShellVariables const& variables);

/// The same, and `${NAME:=TEXT}` sets its variable.
std::vector<ShellWord> expand_and_set(ShellWord const& written, ShellVariables& variables);

/// A word as the value of an assignment: expanded and not split.
std::string expand_value(ShellWord const& written, ShellVariables& variables);

/// A word as a pattern: expanded and not split, and what is quoted stands for itself.
std::string expand_pattern(ShellWord const& written, ShellVariables const& variables);

/// Whether a value still contains a variable that the script did not set.
bool is_unresolved(std::string_view text);

/// The names of the variables in a text that could not be expanded: `$NAME`, `${NAME...}`, and
/// every name in an arithmetic expression.
std::vector<std::string> open_names(std::string_view text);

}  // namespace stagecraft
