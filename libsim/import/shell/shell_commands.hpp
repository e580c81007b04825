#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/import/shell/shell_tokens.hpp"

namespace stagecraft {

struct ShellBranch;

/// A command of a script, with the commands inside it.
struct ShellCommand {
  enum class Kind : std::uint8_t {
    simple,     ///< tokens: assignments, words and redirections; also a test in brackets
    group,      ///< `{ ... }`
    subshell,   ///< `( ... )`
    condition,  ///< `if`: a branch for each `then`, and one without a condition for `else`
    loop,       ///< `while` or `until`, which is the first token
    for_each,   ///< `for NAME in WORDS`; tokens: the name, `in` if it is there, the words
    choice,     ///< `case`; tokens: the word
    function,   ///< tokens: the name
    other,      ///< `select`, or `for ((...))`; the keyword is the first token
  };
  Kind kind = Kind::simple;
  ShellWord place;  ///< its first word
  std::vector<ShellToken> tokens;
  std::vector<ShellBranch> branches;
  bool is_negated = false;  ///< `!` stands before a command that is not simple
  std::string after;        ///< what ties the next command to it: `&&`, `||`, `|`; `&` if it does
                            ///< not wait; empty if it is apart
};

using ShellCommands = std::vector<ShellCommand>;

/// A list of commands with what decides whether it runs.
struct ShellBranch {
  ShellCommands condition;           ///< of `if`, `while` and `until`
  std::vector<ShellToken> patterns;  ///< of `case`
  std::string end;                   ///< of `case`: `;;`, `;&` or `;;&`
  ShellCommands body;
};

/// Puts the tokens of a script together to commands. A script that is cut short or wrong has the
/// commands that can be seen in it. Source: POSIX.1-2017, Shell Command Language, section 2.9.
ShellCommands shell_commands(std::vector<ShellToken> const& tokens);

/// The tokens of commands one after another, with what ties them.
std::vector<ShellToken> all_tokens(ShellCommands const& commands);

}  // namespace stagecraft
