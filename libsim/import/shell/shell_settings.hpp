#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/shell_commands.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

using ShellFunctions = std::map<std::string, ShellCommand const*, std::less<>>;

/// A variable in a text, with the flag whose value it is or that it is a part of; empty if none.
struct ShellReference {
  std::string name;
  std::string flag;
};

/// The variables that written words refer to.
std::vector<ShellReference> references_in(std::vector<std::string> const& written);

/// Adds the flags that the value of a variable has.
void add_flags_of(ShellVariables const& variables,
                  std::string_view name,
                  std::set<std::string>& flags);

/// What commands may set a variable to.
struct ShellSettings {
  std::set<std::string> written;    ///< flags in the text itself
  std::set<std::string> inherited;  ///< flags in the values of other variables
  bool is_open = false;             ///< other flags may be in it
  bool replaces = false;            ///< what it is now is not in it
};

/// What commands may do if they run.
struct ShellEffects {
  std::map<std::string, ShellSettings, std::less<>> settings{};  ///< by variable; "": the command
  bool leaves = false;   ///< one of them ends a loop or a pass of it
  bool returns = false;  ///< one of them ends a function
  bool exits = false;    ///< one of them ends the script
};

ShellEffects effects_of(ShellCommands const& commands,
                        ShellVariables const& variables,
                        ShellFunctions const& functions);

/// The words of tokens as they are written, elements of arrays among them.
std::vector<std::string> written_words(std::vector<ShellToken> const& tokens);

/// The variables that get flags somewhere in the commands.
std::set<std::string> variables_of_flags(ShellCommands const& commands);

/// The name in `NAME=...` or `NAME+=...`; empty if the word is not an assignment.
std::string_view assigned_name(std::string_view word);

}  // namespace stagecraft
