#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/shell/shell_interpreter.hpp"

namespace stagecraft {
namespace {

bool is_joint(std::string_view after) { return after == "&&" || after == "||"; }

bool begins_with_not(ShellCommand const& command) {
  return command.is_negated ||
         (command.kind == ShellCommand::Kind::simple && command.tokens.size() > 1 &&
          command.tokens.front().word.text == "!");
}

/// The first word of a simple command, behind `!`; empty for others.
std::string_view word_of(ShellCommand const& command) {
  if (command.kind != ShellCommand::Kind::simple || command.tokens.empty()) return {};
  return command.tokens[begins_with_not(command) ? 1 : 0].word.text;
}

/// Whether a command is a test that changes nothing.
bool is_plain_test(ShellCommand const& command) {
  std::string_view const word = word_of(command);
  return word == "[" || word == "[[" || word == "test";
}

/// Whether a command is taken to succeed though it need not.
bool may_fail(ShellCommand const& command) {
  constexpr std::array<std::string_view, 5> words{"cd", "mkdir", "pushd", "popd", "touch"};
  return std::ranges::find(words, word_of(command)) != words.end();
}

/// The number of the last command of a pipeline.
std::size_t end_of_pipeline(ShellCommands const& commands, std::size_t first) {
  while (commands[first].after == "|" && first + 1 < commands.size()) ++first;
  return first;
}

/// The number of the last command of pipelines behind && and ||.
std::size_t end_of_joined(ShellCommands const& commands, std::size_t first) {
  std::size_t last = end_of_pipeline(commands, first);
  while (is_joint(commands[last].after) && last + 1 < commands.size()) {
    last = end_of_pipeline(commands, last + 1);
  }
  return last;
}

using Truth = std::optional<bool>;

Truth opposite(Truth truth) { return truth ? Truth{!*truth} : truth; }

/// The status behind && or ||.
Truth after_both(Truth left, Truth right, bool is_and) {
  if ((left && *left != is_and) || (right && *right != is_and)) return !is_and;
  return left && right ? Truth{is_and} : std::nullopt;
}

/// What a status that is not known is taken for: a test fails, as it does if its variables are not
/// set, and other commands succeed.
bool taken_for(ShellCommand const& command) {
  bool const is_test = is_plain_test(command) || word_of(command).starts_with("((");
  return !is_test && !begins_with_not(command);
}

}  // namespace

ShellInterpreter::Status ShellInterpreter::follow_all(ShellCommands const& commands) {
  Status status = true;
  std::set<std::size_t> known = ways_out();
  std::vector<std::pair<std::size_t, std::size_t>> skips;  // doubt, and what it may skip
  for (std::size_t i = 0; i < commands.size() && leaves_ == Leave::nothing; ++i) {
    std::size_t const last = end_of_joined(commands, i);
    if (commands[last].after == "&") {
      in_subshell([&] { return follow_joined(commands, i, last); });
      status = true;
    } else {
      status = follow_joined(commands, i, last);
    }
    last_status_ = status;
    i = last;
    for (std::size_t const number : ways_out()) {
      if (known.insert(number).second) skips.emplace_back(number, last + 1);
    }
  }
  for (auto const& [number, first] : skips) {
    touch(number, {commands.begin() + static_cast<std::ptrdiff_t>(first), commands.end()});
  }
  return status;
}

std::set<std::size_t> ShellInterpreter::ways_out() const {
  std::set<std::size_t> doubts;
  if (loops_open_ > 0) doubts = may_leave_;
  if (functions_open_ > 0) doubts.insert(may_return_.begin(), may_return_.end());
  return doubts;
}

ShellInterpreter::Status ShellInterpreter::in_subshell(std::function<Status()> const& follow_it) {
  ShellVariables variables = variables_;
  ShellFunctions functions = functions_;
  ShellAttributes attributes = attributes_;
  ShellDoubts::Values values = doubts_.values();
  Status status = follow_it();
  if (leaves_ == Leave::script || leaves_ == Leave::function) status = left_with_;
  leaves_ = Leave::nothing;
  variables_ = std::move(variables);
  functions_ = std::move(functions);
  attributes_ = std::move(attributes);
  doubts_.leave_subshell(std::move(values));
  return status;
}

ShellInterpreter::Status ShellInterpreter::follow_pipeline(ShellCommands const& commands,
                                                           std::size_t first,
                                                           std::size_t last) {
  if (first == last) {
    Status const status = follow(commands[first]);
    return commands[first].is_negated ? opposite(status) : status;
  }
  bool const is_negated = begins_with_not(commands[first]);
  Status status;
  Status all = true;
  for (std::size_t i = first; i <= last; ++i) {
    status = in_subshell([&] { return follow(commands[i]); });
    // A simple command takes the `!` of the pipeline as its own.
    if (i == first && is_negated && !commands[i].is_negated) status = opposite(status);
    all = after_both(all, status, true);
  }
  if (has_option("pipefail")) status = all;
  return is_negated ? opposite(status) : status;
}

ShellInterpreter::Status ShellInterpreter::follow_joined(ShellCommands const& commands,
                                                         std::size_t first,
                                                         std::size_t last) {
  std::size_t end = end_of_pipeline(commands, first);
  // What stands before && or || may fail.
  conditions_ += end < last ? 1 : 0;
  Status status = follow_pipeline(commands, first, end);
  conditions_ -= end < last ? 1 : 0;
  bool taken = status.value_or(taken_for(commands[end]));
  bool is_last = end == last;
  std::optional<std::size_t> number;
  while (leaves_ == Leave::nothing && end < last) {
    ShellCommand const& before = commands[first];
    bool const wants_success = commands[end].after == "&&";
    first = end + 1;
    end = end_of_pipeline(commands, first);
    ShellCommands const next(commands.begin() + static_cast<std::ptrdiff_t>(first),
                             commands.begin() + static_cast<std::ptrdiff_t>(end) + 1);
    bool const is_open = !status;
    bool const runs = taken == wants_success;
    if (is_open || (!wants_success && *status && may_fail(before))) {
      bool const leaves = left_by(word_of(next.front())) != Leave::nothing;
      if (!number) number = doubt_of(before, is_open && leaves && !runs);
      touch(*number, next);
    }
    Status result;
    if (runs) {
      undecided_ += is_open ? 1 : 0;
      conditions_ += end < last ? 1 : 0;
      ++branches_;
      result = follow_pipeline(commands, first, end);
      --branches_;
      conditions_ -= end < last ? 1 : 0;
      undecided_ -= is_open ? 1 : 0;
      taken = result.value_or(taken_for(commands[end]));
      is_last = end == last;
    } else if (is_open && first == end && is_plain_test(next.front())) {
      result = follow(next.front());
    }
    status = after_both(status, result, wants_success);
    // What has run under a doubt remains in doubt.
    if (number && runs) touch(*number, next);
  }
  bool const fails = status && !*status && is_last && !begins_with_not(commands[first]);
  if (fails && conditions_ == 0 && has_option("errexit") && leaves_ == Leave::nothing) {
    end_script(commands[first].place, commands[first].tokens, "set -e", false);
  }
  return status;
}

std::size_t ShellInterpreter::doubt_of(ShellCommand const& command, bool skips) {
  return doubt(command.place, command.tokens,
               skips ? "a condition that the script does not decide; what follows is skipped" : "");
}

ShellInterpreter::Status ShellInterpreter::holds_all(ShellCommands const& commands) {
  ++conditions_;
  Status const status = follow_all(commands);
  --conditions_;
  return status;
}

void ShellInterpreter::leave_script(ShellWords const& words) {
  left_with_ = words.size() > 1 ? status_in(words[1].text) : last_status_;
  std::vector<ShellToken> what;
  for (ShellWord const& word : words) what.push_back({ShellToken::Kind::word, word, false, {}});
  end_script(words.front(), what, "exit", true);
}

void ShellInterpreter::end_script(ShellWord const& place,
                                  std::vector<ShellToken> const& what,
                                  std::string const& cause,
                                  bool in_brackets) {
  if (undecided_ > 0) return;
  if (!command_.empty() || (in_brackets && subshells_ > 0)) {
    leaves_ = Leave::script;
    return;
  }
  // Before its command a script ends at what it takes as an error: the user sees what is missing.
  std::string const note = "the script ends here (" + cause + "); it is followed as if it did not";
  if (branches_ > 0 || functions_open_ > 0) {
    note_at(place, note);
  } else {
    ends_.insert(doubt(place, what, note));
  }
}

}  // namespace stagecraft
