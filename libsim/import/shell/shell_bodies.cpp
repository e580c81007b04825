#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// Whether a variable is $@, $1, $2, ...
bool is_argument(std::string_view name) {
  return name == "@" ||
         std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The words of `{1..4}`; the word itself if it is no such range.
ShellWords in_range(ShellWord const& word) {
  std::string_view text = word.text;
  std::size_t const dots = text.find("..");
  if (!text.starts_with('{') || !text.ends_with('}') || dots == std::string_view::npos) {
    return {word};
  }
  auto const first = parse_number<int>(text.substr(1, dots - 1));
  auto const last = parse_number<int>(text.substr(dots + 2, text.size() - dots - 3));
  constexpr int most = 1000;
  if (!first || !last || *first > *last || *last >= most || *first < 0) return {word};
  ShellWords words;
  for (int i = *first; i <= *last; ++i)
    words.push_back({std::to_string(i), word.line, word.column});
  return words;
}

}  // namespace

bool ShellInterpreter::follow_body(ShellCommands const& body) {
  if (depth_ == deepest_ || ++runs_ > most_runs_) {
    ShellWord const place = body.empty() ? ShellWord{} : body.front().place;
    touch(doubt(place, {}, "loops and functions are followed 256 times, 16 deep at most"), body);
    return false;
  }
  ++depth_;
  follow_all(body);
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
  if (leaves_ == Leave::loop) {
    leaves_ = Leave::nothing;
    return false;
  }
  if (leaves_ == Leave::iteration) leaves_ = Leave::nothing;
  return leaves_ == Leave::nothing;
}

void ShellInterpreter::follow_loop(ShellCommand const& command) {
  ShellBranch const& branch = command.branches.front();
  bool const is_until = command.tokens.front().word.text == "until";
  bool const could_have_left = std::exchange(may_have_left_, false);
  while (true) {
    Status const truth = holds_all(branch.condition);
    // A loop that a skipped command may have left could go on forever.
    if (!truth || may_have_left_) {
      skip_loop(command);
      break;
    }
    if (*truth == is_until || !follow_body(branch.body) || !goes_on()) break;
  }
  may_have_left_ = could_have_left || may_have_left_;
}

void ShellInterpreter::follow_each(ShellCommand const& command) {
  auto const& tokens = command.tokens;
  if (tokens.empty()) return;
  ShellWords elements;
  if (tokens.size() < 2 || tokens[1].word.text != "in") {
    auto const arguments = variables_.find("@");
    if (arguments == variables_.end()) return skip_loop(command);
    elements = arguments->second.elements;
  }
  for (std::size_t i = 2; i < tokens.size(); ++i) {
    for (ShellWord const& word : expand_and_set(tokens[i].word, variables_)) {
      for (ShellWord& element : in_range(word)) elements.push_back(std::move(element));
    }
  }
  std::vector<std::string> const written = written_words(tokens);
  for (ShellWord const& element : elements) {
    remember(tokens.front().word.text, {{element}}, written);
    if (!follow_body(command.branches.front().body) || !goes_on()) break;
  }
}

void ShellInterpreter::call(ShellCommand const& function,
                            ShellWords const& words,
                            std::vector<std::string> const& written) {
  ShellVariables const before = variables_;
  set_arguments({words.begin() + 1, words.end()});
  for (std::size_t i = 1; i < words.size(); ++i) {
    doubts_.settle(std::to_string(i), written, false);
  }
  doubts_.settle("@", written, false);
  std::vector<Local> const of_caller = std::exchange(locals_, {});
  ++functions_open_;
  follow_body(function.branches.front().body);
  --functions_open_;
  if (leaves_ != Leave::script) leaves_ = Leave::nothing;
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

}  // namespace stagecraft
