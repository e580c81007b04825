#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/shell_commands.hpp"
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

/// Follows the commands of a script. It owns the values of variables and the functions. Used by
/// follow_script() alone.
class ShellInterpreter {
 public:
  ShellInterpreter(ShellVariables variables, std::set<std::string, std::less<>> const& given)
      : variables_{std::move(variables)}, given_{given} {}

  ScriptOutcome run(ShellCommands commands);

 private:
  /// Whether a command succeeded; nullopt if that cannot be known.
  using Status = std::optional<bool>;

  /// What a command leaves before its end.
  enum class Leave : std::uint8_t { nothing, iteration, loop, function };

  struct Local {
    std::string name;
    std::optional<ShellVariable> before;
  };

  static constexpr int most_runs_ = 256;  ///< of bodies of loops and functions
  static constexpr int deepest_ = 16;     ///< bodies within bodies

  // shell_interpreter.cpp: commands with commands inside them
  Status follow_all(ShellCommands const& commands);
  Status follow(ShellCommand const& command);
  /// Follows the body of a loop or a function.
  void follow_body(ShellCommand const& command);
  void follow_condition(ShellCommand const& command);
  void follow_loop(ShellCommand const& command);
  /// Whether the commands of a condition succeed.
  Status holds_all(ShellCommands const& commands);
  /// Calls a function of the script; its arguments are $1, $2, ... meanwhile.
  void call(ShellCommand const& function, ShellWords const& words);
  void note(ShellWord const& place, std::string const& text);
  static Leave left_by(std::string_view word);

  // shell_statements.cpp: commands of words
  Status execute(ShellCommand const& command);
  bool assign(ShellToken const& token);
  void remember(std::string const& name, ShellVariable value);
  /// Keeps what variables are that the function has of its own from here on.
  void keep_locals(std::vector<ShellToken> const& tokens);
  /// Moves the arguments of a script or a function.
  void shift(ShellWords const& words);
  void set_arguments(ShellWords arguments);
  /// The words of a command, expanded and without redirections.
  ShellWords words_of(std::vector<ShellToken>::const_iterator token,
                      std::vector<ShellToken>::const_iterator end) const;
  /// What `eval` makes of its words: one text, cut into words and expanded a second time.
  ShellWords expanded_again(ShellWords const& words) const;

  ShellVariables variables_;
  std::set<std::string, std::less<>> const& given_;
  std::vector<std::string> notes_;
  ShellWords command_;
  ShellWords flags_of_variable_;
  std::map<std::string, ShellCommand const*, std::less<>> functions_;
  std::list<ShellCommands> scripts_;  ///< whose commands are followed
  std::vector<Local> locals_;         ///< of the function that is followed
  Leave leaves_ = Leave::nothing;
  int functions_open_ = 0;
  int depth_ = 0;  ///< of bodies that are followed
  int runs_ = 0;   ///< of bodies so far
};

/// Follows a script from its first statement to its last: assignments, arrays, `if`, loops over
/// words and its own functions. Commands are not run; other loops, `case` and sourced files are
/// noted and skipped.
///
/// A variable that a command sets (`N=$(nproc)`) is one that the script does not set. The variables
/// in `given` have values from the user, which only an assignment that can be settled replaces.
ScriptOutcome follow_script(std::vector<ShellToken> const& tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given);

}  // namespace stagecraft
