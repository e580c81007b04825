#include "libsim/import/shell/shell_interpreter.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "libsim/config/problem.hpp"
#include "libsim/import/shell/shell_condition.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_parameters.hpp"

namespace stagecraft {
namespace {

constexpr char const* undecided =
    "a condition that the script does not decide; its branch is skipped";

}  // namespace

ScriptOutcome ShellInterpreter::run(ShellCommands commands) {
  follow_all(scripts_.emplace_back(std::move(commands)));
  ScriptOutcome outcome;
  outcome.command = std::move(command_);
  outcome.flags_of_variable = std::move(flags_of_variable_);
  outcome.handed_to = std::move(handed_to_);
  report_doubts(outcome);
  outcome.variables = std::move(outcome.command.empty() ? variables_ : variables_of_command_);
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
  if (text.empty()) text = place.text + " ...";  // of a command with others inside it
  return doubts_.add({place, printable(text), std::move(note), open_names(what, variables_), {}});
}

void ShellInterpreter::touch(std::size_t doubt, ShellCommands const& commands) {
  ShellEffects const effects = doubts_.touch(doubt, commands, variables_, functions_);
  if (effects.leaves) may_leave_.insert(doubt);
  if (effects.returns) may_return_.insert(doubt);
  if (effects.leaves || effects.returns || effects.exits) may_have_left_ = true;
}

ShellInterpreter::Status ShellInterpreter::follow(ShellCommand const& command) {
  switch (command.kind) {
    case ShellCommand::Kind::simple:
      return execute(command);
    case ShellCommand::Kind::group:
      return follow_all(command.branches.front().body);
    case ShellCommand::Kind::subshell: {
      ++subshells_;
      Status const status = in_subshell([&] { return follow_all(command.branches.front().body); });
      --subshells_;
      return status;
    }
    case ShellCommand::Kind::condition:
      return follow_condition(command);
    case ShellCommand::Kind::for_each:
      return follow_each(command);
    case ShellCommand::Kind::loop:
      return follow_loop(command);
    case ShellCommand::Kind::other:
      skip_loop(command);
      return std::nullopt;
    case ShellCommand::Kind::choice:
      return follow_choice(command);
    case ShellCommand::Kind::function:
      if (!command.tokens.empty() && !command.branches.empty()) {
        functions_[command.tokens.front().word.text] = &command;
      }
      break;
  }
  return true;
}

ShellInterpreter::Status ShellInterpreter::follow_condition(ShellCommand const& command) {
  Status status = true;
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
      ++branches_;
      status = follow_all(branch.body);
      --branches_;
      undecided_ -= number ? 1 : 0;
      open.push_back(&branch);
      break;
    }
  }
  if (!number) return status;
  for (ShellBranch const* const branch : open) touch(*number, branch->body);
  return std::nullopt;
}

ShellInterpreter::Status ShellInterpreter::follow_choice(ShellCommand const& command) {
  if (command.tokens.empty()) return std::nullopt;
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
      matches = matches || matches_with_options(text, expanded, variables_);
    }
    falls_through = false;
    if (!matches) continue;
    runs.push_back(&branch);
    falls_through = branch.end == ";&";
    if (!falls_through && branch.end != ";;&") break;
  }
  undecided_ += is_open ? 1 : 0;
  ++branches_;
  Status status = true;
  for (ShellBranch const* const branch : runs) {
    if (leaves_ == Leave::nothing) status = follow_all(branch->body);
  }
  --branches_;
  undecided_ -= is_open ? 1 : 0;
  if (!is_open) return status;
  ShellToken const keyword{ShellToken::Kind::word, {"case", 0, 0}, false, {}};
  std::size_t const number = doubt(
      command.place, {keyword, written},
      "a case that the script does not decide; what runs if its variables are not set is taken");
  for (ShellBranch const& branch : command.branches) touch(number, branch.body);
  return std::nullopt;
}

ScriptOutcome follow_script(std::vector<ShellToken> const& tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given) {
  return ShellInterpreter{std::move(variables), given}.run(shell_commands(tokens));
}

}  // namespace stagecraft
