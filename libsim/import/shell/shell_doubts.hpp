#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/script_doubt.hpp"
#include "libsim/import/shell/shell_commands.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

using ShellFunctions = std::map<std::string, ShellCommand const*, std::less<>>;

/// Which variables have values that depend on what is not known, and which flags that concerns.
class ShellDoubts {
 public:
  /// The number of a doubt; that of an equal one, if a loop has come to its place before.
  std::size_t add(ScriptDoubt doubt);

  /// The commands may have run or not: what they set is in doubt. Returns whether one of them ends
  /// a loop, a function or the script.
  bool touch(std::size_t doubt,
             ShellCommands const& commands,
             ShellVariables const& variables,
             ShellFunctions const& functions);

  /// A variable has the value of `written`, after what it has already if that is appended to it.
  void settle(std::string const& name, std::vector<std::string> const& written, bool appends);

  /// The flags of a command of the words `written` for each doubt that concerns them.
  std::map<std::size_t, std::set<std::string>> reaching(
      std::vector<std::string> const& written) const;
  /// The same, for a command that commands in doubt may have started.
  std::map<std::size_t, std::set<std::string>> reaching_other_commands() const;

  /// Whether a variable may have flags that are in doubt.
  bool may_have_flags(std::string_view name) const;

  std::vector<ScriptDoubt> const& list() const { return list_; }

 private:
  struct Taint {
    std::set<std::string> flags{};
    bool is_open = false;  ///< it may have flags whose names are not known
    std::string name{};    ///< of the variable they would come from
  };
  using Taints = std::map<std::size_t, Taint>;  ///< by doubt

  Taints taints_of(std::vector<std::string> const& written) const;

  std::vector<ScriptDoubt> list_;
  std::map<std::string, Taints, std::less<>> taints_;  ///< by variable; "": other commands
};

/// The words of tokens as they are written, elements of arrays among them.
std::vector<std::string> written_words(std::vector<ShellToken> const& tokens);

/// The variables that get flags somewhere in the commands.
std::set<std::string> variables_of_flags(ShellCommands const& commands);

/// The name in `NAME=...` or `NAME+=...`; empty if a word is no assignment.
std::string_view assigned_name(std::string_view word);

}  // namespace stagecraft
