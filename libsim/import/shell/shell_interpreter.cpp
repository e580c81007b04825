#include "libsim/import/shell/shell_interpreter.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "libsim/config/problem.hpp"
#include "libsim/import/shell/shell_condition.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_parameters.hpp"
#include "libsim/import/shell/shell_pattern.hpp"

namespace stagecraft {
namespace {

bool is_joint(std::string_view after) { return after == "&&" || after == "||"; }

/// Whether a command is a test, whose result matters if it is not known. Other commands succeed.
bool is_test(ShellCommand const& command) {
  if (command.kind != ShellCommand::Kind::simple || command.tokens.empty()) return false;
  auto token = command.tokens.begin();
  if (token->word.text == "!" && token + 1 != command.tokens.end()) ++token;
  std::string_view const word = token->word.text;
  return word == "[" || word == "[[" || word == "test" || word.starts_with("((");
}

constexpr char const* undecided =
    "a condition that the script does not decide; its branch is skipped";

}  // namespace

ScriptOutcome ShellInterpreter::run(ShellCommands commands) {
  follow_all(scripts_.emplace_back(std::move(commands)));
  ScriptOutcome outcome;
  outcome.command = std::move(command_);
  outcome.flags_of_variable = std::move(flags_of_variable_);
  report_doubts(outcome);
  outcome.variables = std::move(variables_);
  return outcome;
}

void ShellInterpreter::report_doubts(ScriptOutcome& outcome) const {
  outcome.notes = notes_;
  auto flags = outcome.command.empty() ? doubts_of_variable_ : doubts_of_command_;
  for (auto& [doubt, others] : doubts_.reaching_other_commands()) {
    for (ShellWord const& word : outcome.command) others.erase(word.text);
    flags[doubt].merge(others);
  }
  // What such a variable has is part of a doubt, or the script is known not to set it.
  std::set<std::string> const own = variables_of_flags(scripts_.front());
  std::erase_if(outcome.command, [&](ShellWord const& word) {
    std::vector<std::string> const names = open_names(word.text);
    if (names.size() != 1) return false;
    std::string const& name = names.front();
    bool const is_variable = word.text == "$" + name || word.text == "${" + name + "}" ||
                             word.text == "${" + name + "[@]}";
    return is_variable && (doubts_.may_have_flags(name) || own.contains(name));
  });
  for (std::size_t i = 0; i < doubts_.list().size(); ++i) {
    ScriptDoubt doubt = doubts_.list()[i];
    if (auto const found = flags.find(i); found != flags.end()) doubt.flags = found->second;
    if (!doubt.flags.empty()) {
      outcome.doubts.push_back(std::move(doubt));
    } else if (!doubt.note.empty()) {
      outcome.notes.push_back("line " + std::to_string(doubt.place.line) + ": " + doubt.note);
    }
  }
}

void ShellInterpreter::note_at(ShellWord const& place, std::string const& text) {
  std::string note = "line " + std::to_string(place.line) + ": " + text;
  if (std::ranges::find(notes_, note) == notes_.end()) notes_.push_back(std::move(note));
}

ShellInterpreter::Leave ShellInterpreter::left_by(std::string_view word) {
  return word == "continue" ? Leave::iteration
         : word == "break"  ? Leave::loop
         : word == "return" ? Leave::function
                            : Leave::nothing;
}

std::size_t ShellInterpreter::doubt(ShellWord const& place,
                                    std::vector<ShellToken> const& what,
                                    std::string note) {
  std::string text;
  for (ShellToken const& token : what) text += (text.empty() ? "" : " ") + token.word.text;
  return doubts_.add({place, printable(text), std::move(note), open_names(what, variables_), {}});
}

void ShellInterpreter::touch(std::size_t doubt, ShellCommands const& commands) {
  if (doubts_.touch(doubt, commands, variables_, functions_)) may_have_left_ = true;
}

ShellInterpreter::Status ShellInterpreter::follow_all(ShellCommands const& commands) {
  Status status = true;
  for (std::size_t i = 0; i < commands.size() && leaves_ == Leave::nothing; ++i) {
    status = follow(commands[i]);
    if (!status && !is_test(commands[i])) status = true;
    i = follow_joined(commands, i, status);
  }
  return status;
}

std::size_t ShellInterpreter::follow_joined(ShellCommands const& commands,
                                            std::size_t first,
                                            Status& status) {
  std::size_t i = first;
  while (leaves_ == Leave::nothing && is_joint(commands[i].after) && i + 1 < commands.size()) {
    ShellCommand const& before = commands[i++];
    bool const wants_success = before.after == "&&";
    std::size_t const start = i;
    while (commands[i].after == "|" && i + 1 < commands.size()) ++i;
    bool const is_open = !status;
    // A test that is not known fails, as it does if its variables are not set.
    bool const runs = status.value_or(false) == wants_success;
    ShellCommands const next(commands.begin() + static_cast<std::ptrdiff_t>(start),
                             commands.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (runs) {
      undecided_ += is_open ? 1 : 0;
      Status result;
      for (std::size_t k = start; k <= i; ++k) result = follow(commands[k]);
      status = !result && !is_test(commands[i]) ? Status{true} : result;
      undecided_ -= is_open ? 1 : 0;
    }
    // Other commands are taken to succeed, which is in doubt, too.
    if (is_open || (!is_test(before) && !wants_success)) {
      bool const leaves = next.front().kind == ShellCommand::Kind::simple &&
                          left_by(next.front().place.text) != Leave::nothing;
      touch(doubt(before.place, before.tokens,
                  is_open && leaves
                      ? "a condition that the script does not decide; what follows is skipped"
                      : ""),
            next);
    }
    if (!runs && is_open) status = false;
  }
  return i;
}

ShellInterpreter::Status ShellInterpreter::follow(ShellCommand const& command) {
  switch (command.kind) {
    case ShellCommand::Kind::simple:
      return execute(command);
    case ShellCommand::Kind::group:
      return follow_all(command.branches.front().body);
    case ShellCommand::Kind::subshell: {
      ShellVariables before = variables_;
      Status const status = follow_all(command.branches.front().body);
      variables_ = std::move(before);
      if (leaves_ == Leave::script) leaves_ = Leave::nothing;
      return status;
    }
    case ShellCommand::Kind::condition:
      follow_condition(command);
      break;
    case ShellCommand::Kind::for_each:
      follow_each(command);
      break;
    case ShellCommand::Kind::loop:
      follow_loop(command);
      break;
    case ShellCommand::Kind::other:
      skip_loop(command);
      break;
    case ShellCommand::Kind::choice:
      follow_choice(command);
      break;
    case ShellCommand::Kind::function:
      if (!command.tokens.empty() && !command.branches.empty()) {
        functions_[command.tokens.front().word.text] = &command;
      }
      break;
  }
  return true;
}

ShellInterpreter::Status ShellInterpreter::holds_all(ShellCommands const& commands) {
  Status truth = true;
  std::string joint;
  bool is_piped = false;
  for (ShellCommand const& command : commands) {
    Status next;
    bool const is_open = command.after == "|" || is_piped;
    bool const is_simple = command.kind == ShellCommand::Kind::simple;
    if (is_simple && !is_open) next = execute(command);
    if (!is_simple && !command.branches.empty() && command.branches.front().condition.empty()) {
      next = holds_all(command.branches.front().body);
    }
    is_piped = command.after == "|";
    if (is_piped) continue;
    if (joint == "&&") {
      bool const fails = (truth && !*truth) || (next && !*next);
      truth = fails ? Status{false} : truth && next ? Status{true} : std::nullopt;
    } else if (joint == "||") {
      bool const succeeds = truth.value_or(false) || next.value_or(false);
      truth = succeeds ? Status{true} : truth && next ? Status{false} : std::nullopt;
    } else {
      truth = next;
    }
    joint = command.after;
  }
  return truth;
}

void ShellInterpreter::follow_condition(ShellCommand const& command) {
  std::optional<std::size_t> number;
  std::vector<ShellBranch const*> open;
  for (ShellBranch const& branch : command.branches) {
    Status const truth = branch.condition.empty() ? Status{true} : holds_all(branch.condition);
    if (!truth) {
      if (!number) {
        std::vector<ShellToken> what = all_tokens(branch.condition);
        what.insert(what.begin(), {ShellToken::Kind::word, {"if", 0, 0}, false, {}});
        number = doubt(command.place, what, undecided);
      }
      open.push_back(&branch);
    } else if (*truth) {
      undecided_ += number ? 1 : 0;
      follow_all(branch.body);
      undecided_ -= number ? 1 : 0;
      open.push_back(&branch);
      break;
    }
  }
  if (!number) return;
  for (ShellBranch const* const branch : open) touch(*number, branch->body);
}

void ShellInterpreter::follow_choice(ShellCommand const& command) {
  if (command.tokens.empty()) return;
  ShellToken const& written = command.tokens.front();
  std::string const subject = joined(expand_and_set(written.word, variables_));
  bool is_open = is_unresolved(subject);
  // As if the variable were not set.
  std::string const text = is_open ? std::string{} : subject;
  std::vector<ShellBranch const*> runs;
  bool falls_through = false;
  for (ShellBranch const& branch : command.branches) {
    bool matches = falls_through;
    for (ShellToken const& pattern : branch.patterns) {
      std::string const expanded = expand_pattern(pattern.word, variables_);
      if (is_unresolved(expanded)) is_open = true;
      matches = matches || matches_pattern(text, expanded);
    }
    falls_through = false;
    if (!matches) continue;
    runs.push_back(&branch);
    falls_through = branch.end == ";&";
    if (!falls_through && branch.end != ";;&") break;
  }
  undecided_ += is_open ? 1 : 0;
  for (ShellBranch const* const branch : runs) {
    if (leaves_ == Leave::nothing) follow_all(branch->body);
  }
  undecided_ -= is_open ? 1 : 0;
  if (!is_open) return;
  ShellToken const keyword{ShellToken::Kind::word, {"case", 0, 0}, false, {}};
  std::size_t const number = doubt(
      command.place, {keyword, written},
      "a case that the script does not decide; what runs if its variables are not set is taken");
  for (ShellBranch const& branch : command.branches) touch(number, branch.body);
}

ScriptOutcome follow_script(std::vector<ShellToken> const& tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given) {
  return ShellInterpreter{std::move(variables), given}.run(shell_commands(tokens));
}

}  // namespace stagecraft
