#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/import/shell/shell_braces.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// Whether a variable is $@, $1, $2, ...
bool is_argument(std::string_view name) {
  return name == "@" || name == "#" ||
         std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Whether it is not known how many words a written word stands for: what a command prints, file
/// names, or a variable that is not set, in no quotes.
bool has_any_words(ShellWord const& written, ShellWords const& expanded) {
  if (written.text.find_first_of("\"'\\") != std::string::npos) return false;
  return std::ranges::any_of(expanded, [](ShellWord const& word) {
    return is_unresolved(word.text) || word.text.find_first_of("*?[") != std::string::npos;
  });
}

}  // namespace

bool ShellInterpreter::follow_body(ShellCommands const& body, Status& status) {
  if (depth_ == deepest_ || ++runs_ > most_runs_) {
    ShellWord const place = body.empty() ? ShellWord{} : body.front().place;
    touch(doubt(place, {}, "loops and functions are followed 256 times, 16 deep at most"), body);
    status = std::nullopt;
    return false;
  }
  ++depth_;
  status = follow_all(body);
  --depth_;
  return true;
}

void ShellInterpreter::skip_loop(ShellCommand const& command) {
  std::vector<ShellToken> what = command.tokens;
  if (command.kind == ShellCommand::Kind::loop) {
    auto const condition = all_tokens(command.branches.front().condition);
    what.insert(what.end(), condition.begin(), condition.end());
  }
  std::size_t const number = doubt(command.place, what, "a loop is not followed");
  for (ShellBranch const& branch : command.branches) {
    touch(number, branch.condition);
    touch(number, branch.body);
  }
}

bool ShellInterpreter::goes_on() {
  bool const ends_outer_loop = leaves_levels_ > 1;
  if (leaves_ == Leave::loop || leaves_ == Leave::iteration) {
    bool const ends = leaves_ == Leave::loop || ends_outer_loop;
    if (ends_outer_loop) {
      --leaves_levels_;
    } else {
      leaves_ = Leave::nothing;
    }
    return !ends;
  }
  return leaves_ == Leave::nothing;
}

void ShellInterpreter::leave_body(Leave leave, ShellWords const& words) {
  if (leave == Leave::function) {
    if (functions_open_ == 0 && depth_ == 0) return;
    left_with_ = words.size() > 1 ? status_in(words[1].text) : last_status_;
  } else {
    if (loops_open_ == 0) return;
    int const levels = words.size() > 1 ? parse_number<int>(words[1].text).value_or(1) : 1;
    leaves_levels_ = std::clamp(levels, 1, loops_open_);
  }
  leaves_ = leave;
}

ShellInterpreter::Status ShellInterpreter::status_in(std::string const& text) const {
  if (text == "$?") return last_status_;
  auto const number = parse_number<int>(text);
  return number ? Status{*number % 256 == 0} : std::nullopt;
}

void ShellInterpreter::touch_passes(ShellCommands const& body) {
  std::set<std::size_t> const doubts = may_leave_;
  for (std::size_t const number : doubts) touch(number, body);
}

ShellInterpreter::Status ShellInterpreter::follow_loop(ShellCommand const& command) {
  ShellBranch const& branch = command.branches.front();
  bool const is_until = command.tokens.front().word.text == "until";
  bool const could_have_left = std::exchange(may_have_left_, false);
  std::set<std::size_t> outer = std::exchange(may_leave_, {});
  Status status = true;
  ++loops_open_;
  ++branches_;
  while (true) {
    Status const truth = holds_all(branch.condition);
    // A loop that a skipped command may have left could go on forever.
    if (!truth || may_have_left_) {
      skip_loop(command);
      status = std::nullopt;
      break;
    }
    if (*truth == is_until || !follow_body(branch.body, status) || !goes_on()) break;
  }
  --branches_;
  --loops_open_;
  touch_passes(branch.body);
  may_leave_ = std::move(outer);
  may_have_left_ = could_have_left || may_have_left_;
  return status;
}

ShellInterpreter::Status ShellInterpreter::follow_each(ShellCommand const& command) {
  auto const& tokens = command.tokens;
  if (tokens.empty()) return std::nullopt;
  ShellWords elements;
  bool is_open = false;
  if (tokens.size() < 2 || tokens[1].word.text != "in") {
    auto const arguments = variables_.find("@");
    if (arguments == variables_.end()) {
      skip_loop(command);
      return std::nullopt;
    }
    elements = arguments->second.elements;
  }
  for (std::size_t i = 2; i < tokens.size(); ++i) {
    for (ShellWord const& written : in_braces(tokens[i].word)) {
      ShellWords const words = expand_and_set(written, variables_);
      is_open = is_open || has_any_words(written, words);
      elements.insert(elements.end(), words.begin(), words.end());
    }
  }
  std::optional<std::size_t> number;
  if (is_open) {
    std::vector<ShellToken> what = tokens;
    what.insert(what.begin(), {ShellToken::Kind::word, {"for", 0, 0}, false, {}});
    number = doubt(command.place, what,
                   "a loop over words that the script does not decide; one pass is followed");
    touch(*number, command.branches.front().body);
  }
  std::vector<std::string> const written = written_words(tokens);
  ShellCommands const& body = command.branches.front().body;
  std::set<std::size_t> outer = std::exchange(may_leave_, {});
  Status status = true;
  ++loops_open_;
  ++branches_;
  undecided_ += is_open ? 1 : 0;
  for (ShellWord const& element : elements) {
    remember(tokens.front().word.text, {{element}}, written);
    if (!follow_body(body, status) || !goes_on()) break;
  }
  undecided_ -= is_open ? 1 : 0;
  --branches_;
  --loops_open_;
  touch_passes(body);
  may_leave_ = std::move(outer);
  if (!number) return status;
  touch(*number, body);
  return std::nullopt;
}

ShellInterpreter::Status ShellInterpreter::call(ShellCommand const& function,
                                                ShellWords const& words,
                                                std::vector<std::string> const& written) {
  ShellVariables const before = variables_;
  set_arguments({words.begin() + 1, words.end()}, written);
  for (std::size_t i = 1; i < words.size(); ++i) {
    doubts_.settle(std::to_string(i), written, false);
  }
  doubts_.settle("@", written, false);
  std::vector<Local> const of_caller = std::exchange(locals_, {});
  std::set<std::size_t> returns = std::exchange(may_return_, {});
  int const loops = std::exchange(loops_open_, 0);
  ++functions_open_;
  Status status;
  follow_body(function.branches.front().body, status);
  --functions_open_;
  loops_open_ = loops;
  if (leaves_ == Leave::function) status = left_with_;
  if (leaves_ != Leave::script) leaves_ = Leave::nothing;
  if (!may_return_.empty()) status = std::nullopt;
  may_return_ = std::move(returns);
  restore(locals_);
  locals_ = of_caller;
  std::erase_if(variables_, [](auto const& entry) { return is_argument(entry.first); });
  for (auto const& entry : before) {
    if (is_argument(entry.first)) variables_.insert(entry);
  }
  return status;
}

void ShellInterpreter::set_arguments(ShellWords arguments,
                                     std::vector<std::string> const& written) {
  std::erase_if(variables_, [](auto const& entry) { return is_argument(entry.first); });
  // A variable that is not set and in no quotes, or an array, may be any number of words.
  bool const is_counted = std::ranges::none_of(arguments, [&](ShellWord const& word) {
    bool const is_bare = std::ranges::any_of(written, [&](std::string const& text) {
      return text == word.text ||
             "${" + text.substr(std::min<std::size_t>(1, text.size())) + "}" == word.text;
    });
    return is_unresolved(word.text) && (word.text.ends_with("[@]}") || is_bare);
  });
  if (!is_counted) variables_["#"] = {};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    variables_[std::to_string(i + 1)] = {{arguments[i]}};
  }
  variables_["@"].elements = std::move(arguments);
}

}  // namespace stagecraft
