#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/shell/shell_commands.hpp"
#include "libsim/import/shell/shell_doubts.hpp"
#include "libsim/import/shell/shell_parameters.hpp"
#include "libsim/import/shell/shell_tokens.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// A script that another one reads or starts.
struct OtherScript {
  ShellWord call;  ///< its name without folders and its arguments, as a command line has them
  bool is_sourced = false;  ///< and so not started
};

/// What following a script found.
struct ScriptOutcome {
  ShellWords command{};  ///< the last command with --num-layers, expanded
  /// The last value of a variable with such flags, for scripts that only set the variable.
  ShellWords flags_of_variable{};
  ShellVariables variables{};
  std::vector<OtherScript> handed_to{};  ///< none is followed
  std::vector<std::string> notes{};   ///< what was not followed and changes no flag of the command
  std::vector<ScriptDoubt> doubts{};  ///< what was not followed and may change some
};

/// What `declare` and the like say of variables.
struct ShellAttributes {
  std::set<std::string, std::less<>> integers{};                 ///< assigned values are arithmetic
  std::set<std::string, std::less<>> constants{};                ///< of `readonly`
  std::map<std::string, std::string, std::less<>> references{};  ///< of `declare -n`
};

/// Whether a token assigns a variable, an array or one of its elements.
bool is_assignment(ShellToken const& token);

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

  // shell_lists.cpp: commands one after another
  Status follow_all(ShellCommands const& commands);
  /// Follows pipelines behind && and ||, from the number of the first command to the last's.
  Status follow_joined(ShellCommands const& commands, std::size_t first, std::size_t last);
  Status follow_pipeline(ShellCommands const& commands, std::size_t first, std::size_t last);
  /// Follows commands whose assignments do not stay.
  Status in_subshell(std::function<Status()> const& follow_it);
  /// Whether the commands of a condition succeed.
  Status holds_all(ShellCommands const& commands);
  /// The doubts by which what is followed may have been left.
  std::set<std::size_t> ways_out() const;
  std::size_t doubt_of(ShellCommand const& command, bool skips);
  void leave_script(ShellWords const& words);
  /// Ends the script for `cause`; `in_brackets`: also within `( ... )`.
  void end_script(ShellWord const& place,
                  std::vector<ShellToken> const& what,
                  std::string const& cause,
                  bool in_brackets);

  // shell_interpreter.cpp: commands with commands inside them
  Status follow(ShellCommand const& command);
  Status follow_condition(ShellCommand const& command);
  Status follow_choice(ShellCommand const& command);
  /// Commands may run or not, for what the words `what` say; the number of the doubt.
  std::size_t doubt(ShellWord const& place, std::vector<ShellToken> const& what, std::string note);
  void touch(std::size_t doubt, ShellCommands const& commands);
  void note_at(ShellWord const& place, std::string const& text);
  static Leave left_by(std::string_view word);
  void report_doubts(ScriptOutcome& outcome) const;

  // shell_bodies.cpp: loops and functions
  Status follow_loop(ShellCommand const& command);
  Status follow_each(ShellCommand const& command);
  void skip_loop(ShellCommand const& command);
  /// Follows the body of a loop or a function; false if there have been too many.
  bool follow_body(ShellCommands const& body, Status& status);
  /// Whether a loop goes on after its body.
  bool goes_on();
  /// What a loop sets is in doubt if a pass may have ended it.
  void touch_passes(ShellCommands const& body);
  /// `break`, `continue` and `return`.
  void leave_body(Leave leave, ShellWords const& words);
  /// The status that is given to `return` or `exit`.
  Status status_in(std::string const& text) const;
  /// Calls a function of the script; its arguments are $1, $2, ... meanwhile.
  Status call(ShellCommand const& function,
              ShellWords const& words,
              std::vector<std::string> const& written);
  void set_arguments(ShellWords arguments, std::vector<std::string> const& written);

  // shell_statements.cpp: commands of words
  Status execute(ShellCommand const& command);
  Status execute_words(ShellCommand const& command, std::vector<ShellToken>::const_iterator first);
  /// The words of a command, expanded and without redirections.
  ShellWords words_of(std::vector<ShellToken>::const_iterator token,
                      std::vector<ShellToken>::const_iterator end);
  /// Notes the command that starts training.
  void start(ShellCommand const& command, ShellWords words);
  /// Notes the script that a command starts, such as `sbatch train.sh 8`, if there is one.
  void hand_over(ShellWords const& words);
  /// What `eval` does: its words are one text, which is followed.
  Status execute_again(ShellWords const& words);
  /// Gives variables the values that they had.
  void restore(std::vector<Local>& locals);

  // shell_builtins.cpp: commands of the shell itself
  /// Executes a command that changes variables, arguments or the way through the script. Returns
  /// false if the words are another command.
  bool execute_builtin(ShellWords const& words,
                       std::vector<std::string> const& written,
                       Status& status);
  void unset(ShellWords const& words);
  void unset_element(std::string const& name, std::string const& index);
  void set_option(std::string const& name, bool is_set);
  bool has_option(std::string_view name) const { return stagecraft::has_option(variables_, name); }
  /// `set`, with its options and arguments.
  void set_options(ShellWords const& words, std::vector<std::string> const& written);
  /// An expression in `((...))` or behind `let`, which may set a variable.
  Status calculate(std::string const& expression);
  /// Moves the arguments of a script or a function.
  Status shift(ShellWords const& words);

  // shell_assignments.cpp: variables
  /// `export`, `declare` and the like, with what they set.
  void declare(std::vector<ShellToken> const& tokens);
  /// A variable is another one from here on.
  void refer(std::string const& name, std::string const& target);
  std::string referred(std::string const& name) const;
  void refresh_references(std::string const& target);
  bool assign(ShellToken const& token);
  bool assign_element(ShellToken const& token);
  void remember(std::string const& name,
                ShellVariable value,
                std::vector<std::string> const& written,
                bool appends = false);
  void forget(std::string const& name);
  /// Keeps what variables are that the function has of its own from here on.
  void keep_locals(std::vector<ShellToken> const& tokens);

  ShellVariables variables_;
  ShellVariables variables_of_command_;
  ShellAttributes attributes_;
  std::set<std::string, std::less<>> const& given_;
  std::vector<std::string> notes_;
  ShellDoubts doubts_;
  ShellWords command_;
  std::vector<OtherScript> handed_to_;
  ShellWords flags_of_variable_;
  /// The flags in doubt of the command, and of the variable.
  std::map<std::size_t, std::set<std::string>> doubts_of_command_, doubts_of_variable_;
  std::vector<std::string> written_again_;  ///< the words of the `eval` that is followed
  ShellFunctions functions_;
  std::list<ShellCommands> scripts_;  ///< whose commands are followed
  std::vector<Local> locals_;         ///< of the function that is followed
  Leave leaves_ = Leave::nothing;
  int leaves_levels_ = 1;  ///< loops that `break N` or `continue N` concerns
  Status left_with_;       ///< of `return` or `exit`
  Status last_status_ = true;
  std::set<std::size_t> may_leave_, may_return_;  ///< doubts by which a loop, a function may end
  std::set<std::size_t> ends_;                    ///< doubts by which the script ends before
  bool may_have_left_ = false;                    ///< the loop, by a command that was skipped
  int undecided_ = 0;  ///< conditions that are not known, around what is followed
  int functions_open_ = 0;
  int loops_open_ = 0;
  int subshells_ = 0;   ///< in brackets, that are followed
  int branches_ = 0;    ///< around what is followed, so that it may be skipped
  int conditions_ = 0;  ///< around what is followed, in which a command may fail
  int depth_ = 0;       ///< of bodies that are followed
  int runs_ = 0;        ///< of bodies so far
};

/// Follows a script from its first statement to its last: assignments, arrays, `if`, `case`, loops
/// and its own functions. It runs no commands: it takes those whose status it does not know to
/// succeed, with a doubt. If the script does not decide a condition or a `case`, it takes the
/// branch that runs while the variables are unset. It skips a loop that the script does not decide,
/// and sourced files.
///
/// A variable that a command sets (`N=$(nproc)`) is one that the script does not set. The variables
/// in `given` have values from the user, which only an assignment that can be settled replaces.
ScriptOutcome follow_script(std::vector<ShellToken> const& tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given);

}  // namespace stagecraft
