#include "libsim/import/shell/shell_interpreter.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <utility>

#include "libsim/import/shell/shell_condition.hpp"
#include "libsim/import/shell/shell_expansion.hpp"

namespace stagecraft {
namespace {

/// Whether a variable is $@, $1, $2, ...
bool is_argument(std::string_view name) {
  return name == "@" ||
         std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_joint(std::string_view after) { return after == "&&" || after == "||"; }

}  // namespace

ScriptOutcome ShellInterpreter::run(ShellCommands commands) {
  follow_all(scripts_.emplace_back(std::move(commands)));
  return {std::move(command_), std::move(flags_of_variable_), std::move(variables_),
          std::move(notes_)};
}

void ShellInterpreter::note(ShellWord const& place, std::string const& text) {
  notes_.push_back("line " + std::to_string(place.line) + ": " + text);
}

ShellInterpreter::Leave ShellInterpreter::left_by(std::string_view word) {
  return word == "continue" ? Leave::iteration
         : word == "break"  ? Leave::loop
         : word == "return" ? Leave::function
                            : Leave::nothing;
}

ShellInterpreter::Status ShellInterpreter::follow_all(ShellCommands const& commands) {
  Status status = true;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    status = follow(commands[i]);
    while (leaves_ == Leave::nothing && is_joint(commands[i].after) && i + 1 < commands.size()) {
      std::string const& joint = commands[i++].after;
      auto const& next = commands[i];
      bool const leaves = next.kind == ShellCommand::Kind::simple && !next.tokens.empty() &&
                          left_by(next.tokens.front().word.text) != Leave::nothing;
      if (!status && leaves) {
        note(commands[i - 1].place,
             "a condition that the script does not decide; what follows is skipped");
      } else if (!status || *status == (joint == "&&")) {
        status = follow(next);
      }
    }
    if (leaves_ != Leave::nothing) break;
  }
  return status;
}

ShellInterpreter::Status ShellInterpreter::follow(ShellCommand const& command) {
  switch (command.kind) {
    case ShellCommand::Kind::simple:
      return execute(command);
    case ShellCommand::Kind::group:
    case ShellCommand::Kind::subshell:
      return follow_all(command.branches.front().body);
    case ShellCommand::Kind::condition:
      follow_condition(command);
      break;
    case ShellCommand::Kind::for_each:
      follow_loop(command);
      break;
    case ShellCommand::Kind::loop:
    case ShellCommand::Kind::other:
      note(command.place, "a loop is not followed");
      break;
    case ShellCommand::Kind::choice:
      note(command.place, "a case is not followed");
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
  std::vector<ShellToken> tokens;
  for (ShellCommand const& command : commands) {
    if (command.kind != ShellCommand::Kind::simple) return std::nullopt;
    tokens.insert(tokens.end(), command.tokens.begin(), command.tokens.end());
    if (!command.after.empty()) {
      tokens.push_back({ShellToken::Kind::operation, {command.after, 0, 0}, false, {}});
    }
  }
  return holds(tokens, variables_);
}

void ShellInterpreter::follow_condition(ShellCommand const& command) {
  for (ShellBranch const& branch : command.branches) {
    Status truth = true;
    if (!branch.condition.empty()) truth = holds_all(branch.condition);
    if (!truth && &branch == command.branches.data()) {
      note(command.place, "a condition that the script does not decide; its branch is skipped");
    }
    if (truth.value_or(false)) {
      follow_all(branch.body);
      return;
    }
  }
}

void ShellInterpreter::follow_body(ShellCommand const& command) {
  ShellCommands const& body = command.branches.front().body;
  if (body.empty()) return;
  if (depth_ == deepest_ || ++runs_ > most_runs_) {
    return note(body.front().place, "loops and functions are followed 256 times, 16 deep at most");
  }
  ++depth_;
  follow_all(body);
  --depth_;
}

void ShellInterpreter::follow_loop(ShellCommand const& command) {
  auto const& tokens = command.tokens;
  if (tokens.size() < 2 || tokens[1].word.text != "in") {
    return note(command.place, "a loop is not followed");
  }
  ShellWords elements;
  for (auto token = tokens.begin() + 2; token != tokens.end(); ++token) {
    for (ShellWord const& word : expand(token->word, variables_)) elements.push_back(word);
  }
  for (ShellWord const& element : elements) {
    remember(tokens.front().word.text, {{element}});
    follow_body(command);
    if (leaves_ != Leave::iteration && leaves_ != Leave::nothing) break;
    leaves_ = Leave::nothing;
  }
  if (leaves_ == Leave::loop) leaves_ = Leave::nothing;
}

void ShellInterpreter::call(ShellCommand const& function, ShellWords const& words) {
  ShellVariables const before = variables_;
  set_arguments({words.begin() + 1, words.end()});
  std::vector<Local> const of_caller = std::exchange(locals_, {});
  ++functions_open_;
  follow_body(function);
  --functions_open_;
  leaves_ = Leave::nothing;
  for (auto local = locals_.rbegin(); local != locals_.rend(); ++local) {
    if (local->before) {
      variables_[local->name] = *local->before;
    } else {
      variables_.erase(local->name);
    }
  }
  locals_ = of_caller;
  std::erase_if(variables_, [](auto const& entry) { return is_argument(entry.first); });
  for (auto const& entry : before) {
    if (is_argument(entry.first)) variables_.insert(entry);
  }
}

void ShellInterpreter::set_arguments(ShellWords arguments) {
  std::erase_if(variables_, [](auto const& entry) { return is_argument(entry.first); });
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    variables_[std::to_string(i + 1)] = {{arguments[i]}};
  }
  variables_["@"].elements = std::move(arguments);
}

ScriptOutcome follow_script(std::vector<ShellToken> const& tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given) {
  return ShellInterpreter{std::move(variables), given}.run(shell_commands(tokens));
}

}  // namespace stagecraft
