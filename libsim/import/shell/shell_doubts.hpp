#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/script_doubt.hpp"
#include "libsim/import/shell/shell_commands.hpp"
#include "libsim/import/shell/shell_settings.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// Which variables have values that depend on what is not known, and which flags that concerns.
class ShellDoubts {
  struct Taint {
    std::set<std::string> flags{};
    bool is_open = false;  ///< it may have flags whose names are not known
    std::string name{};    ///< of the variable they would come from
  };
  using Taints = std::map<std::size_t, Taint>;  ///< by doubt

 public:
  /// The doubts about the value of each variable; "" stands for other commands.
  using Values = std::map<std::string, Taints, std::less<>>;

  /// The number of a doubt; that of an equal one, if a loop has come to its place before.
  std::size_t add(ScriptDoubt doubt);

  /// The commands may have run or not: what they set is in doubt. Returns what they may do.
  ShellEffects touch(std::size_t doubt,
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

  Values const& values() const { return taints_; }
  /// Variables have again what they had before a subshell; commands that it may have started stay.
  void leave_subshell(Values before);

  std::vector<ScriptDoubt> const& list() const { return list_; }

 private:
  Taints taints_of(std::vector<std::string> const& written) const;

  std::vector<ScriptDoubt> list_;
  Values taints_;
};

}  // namespace stagecraft
