#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/shell/shell_commands.hpp"
#include "libsim/import/shell/shell_doubts.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// What following a script found.
struct ScriptOutcome {
  ShellWords command{};  ///< the last command with --num-layers, expanded
  /// The last value of a variable with such flags, for scripts that only set the variable.
  ShellWords flags_of_variable{};
  ShellVariables variables{};
  std::vector<std::string> notes{};   ///< what was not followed and changes no flag of the command
  std::vector<ScriptDoubt> doubts{};  ///< what was not followed and may change some
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
  enum class Leave : std::uint8_t { nothing, iteration, loop, function, script };

  struct Local {
    std::string name;
    std::optional<ShellVariable> before;
  };

  static constexpr int most_runs_ = 256;  ///< of bodies of loops and functions
  static constexpr int deepest_ = 16;     ///< bodies within bodies

  // shell_interpreter.cpp: commands with commands inside them
  Status follow_all(ShellCommands const& commands);
  Status follow(ShellCommand const& command);
  /// Follows commands behind && and ||, from the number of the first one; returns the last's.
  std::size_t follow_joined(ShellCommands const& commands, std::size_t first, Status& status);
  void follow_condition(ShellCommand const& command);
  void follow_choice(ShellCommand const& command);
  /// Whether the commands of a condition succeed.
  Status holds_all(ShellCommands const& commands);
  /// Commands may run or not, for what the words `what` say; the number of the doubt.
  std::size_t doubt(ShellWord const& place, std::vector<ShellToken> const& what, std::string note);
  void touch(std::size_t doubt, ShellCommands const& commands);
  void note_at(ShellWord const& place, std::string const& text);
  static Leave left_by(std::string_view word);
  void report_doubts(ScriptOutcome& outcome) const;

  // shell_bodies.cpp: loops and functions
  void follow_loop(ShellCommand const& command);
  void follow_each(ShellCommand const& command);
  void skip_loop(ShellCommand const& command);
  /// Follows the body of a loop or a function; false if there have been too many.
  bool follow_body(ShellCommands const& body);
  /// Whether a loop goes on after its body.
  bool goes_on();
  /// Calls a function of the script; its arguments are $1, $2, ... meanwhile.
  void call(ShellCommand const& function,
            ShellWords const& words,
            std::vector<std::string> const& written);
  void set_arguments(ShellWords arguments);

  // shell_statements.cpp: commands of words
  Status execute(ShellCommand const& command);
  Status execute_words(ShellCommand const& command, std::vector<ShellToken>::const_iterator first);
  /// Notes the command that starts training.
  void start(ShellCommand const& command, ShellWords words);
  /// `export`, `declare` and the like, with what they set.
  void declare(std::vector<ShellToken> const& tokens);
  /// What `eval` does: its words are one text, which is followed.
  void execute_again(ShellWords const& words);

  // shell_builtins.cpp: commands of the shell itself
  /// Executes a command that changes variables, arguments or the way through the script; false if
  /// it is none.
  bool execute_builtin(ShellWords const& words, std::vector<std::string> const& written);
  /// An expression in `((...))` or behind `let`, which may set a variable.
  Status calculate(std::string const& expression);
  void leave_script(ShellWords const& words);
  bool assign(ShellToken const& token);
  bool assign_element(ShellToken const& token);
  void remember(std::string const& name,
                ShellVariable value,
                std::vector<std::string> const& written,
                bool appends = false);
  void forget(std::string const& name);
  /// Keeps what variables are that the function has of its own from here on.
  void keep_locals(std::vector<ShellToken> const& tokens);
  /// Moves the arguments of a script or a function.
  void shift(ShellWords const& words);
  /// The words of a command, expanded and without redirections.
  ShellWords words_of(std::vector<ShellToken>::const_iterator token,
                      std::vector<ShellToken>::const_iterator end);

  ShellVariables variables_;
  std::set<std::string, std::less<>> const& given_;
  std::vector<std::string> notes_;
  ShellDoubts doubts_;
  ShellWords command_;
  ShellWords flags_of_variable_;
  /// The flags in doubt of the command, and of the variable.
  std::map<std::size_t, std::set<std::string>> doubts_of_command_, doubts_of_variable_;
  std::vector<std::string> written_again_;  ///< the words of the `eval` that is followed
  ShellFunctions functions_;
  std::list<ShellCommands> scripts_;  ///< whose commands are followed
  std::vector<Local> locals_;         ///< of the function that is followed
  Leave leaves_ = Leave::nothing;
  bool may_have_left_ = false;  ///< the loop, by a command that was skipped
  int undecided_ = 0;           ///< conditions that are not known, around what is followed
  int functions_open_ = 0;
  int depth_ = 0;  ///< of bodies that are followed
  int runs_ = 0;   ///< of bodies so far
};

/// Follows a script from its first statement to its last: assignments, arrays, `if`, `case`, loops
/// and its own functions. Commands are not run and are taken to succeed. Of a condition or a `case`
/// that the script does not decide what runs if its variables are not set; a loop of that kind is
/// skipped, and so is a sourced file.
///
/// A variable that a command sets (`N=$(nproc)`) is one that the script does not set. The variables
/// in `given` have values from the user, which only an assignment that can be settled replaces.
ScriptOutcome follow_script(std::vector<ShellToken> const& tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given);

}  // namespace stagecraft
