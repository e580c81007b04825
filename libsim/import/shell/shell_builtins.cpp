#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/import/shell/shell_arithmetic.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"
#include "libsim/import/shell/shell_parameters.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

bool is_variable_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, is_name_character);
}

/// Whether a command sets the variables whose names are among its words to what is not known.
bool reads_variables(ShellWords const& words) {
  std::string_view const name = words.front().text;
  return name == "read" || name == "mapfile" || name == "readarray" || name == "getopts" ||
         (name == "printf" && words.size() > 2 && words[1].text == "-v");
}

}  // namespace

bool ShellInterpreter::execute_builtin(ShellWords const& words,
                                       std::vector<std::string> const& written) {
  std::string const& name = words.front().text;
  if (name == "eval") {
    auto before = std::exchange(written_again_, written);
    execute_again(words);
    written_again_ = std::move(before);
  } else if (name == "shift") {
    shift(words);
  } else if (name == "exit") {
    leave_script(words);
  } else if (name == "set") {
    bool const has_dashes = words.size() > 1 && words[1].text == "--";
    if (has_dashes) {
      set_arguments({words.begin() + 2, words.end()});
      doubts_.settle("@", written, false);
    }
  } else if (name == "unset") {
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
      if (!is_variable_name(word->text)) continue;
      variables_[word->text] = {};
      doubts_.settle(word->text, {}, false);
    }
  } else if (name == "let") {
    for (auto word = words.begin() + 1; word != words.end(); ++word) calculate(word->text);
  } else if (reads_variables(words)) {
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
      if (is_variable_name(word->text)) forget(word->text);
    }
    return false;
  } else if (Leave const left = left_by(name); left != Leave::nothing && depth_ > 0) {
    leaves_ = left;
  } else {
    return false;
  }
  return true;
}

void ShellInterpreter::leave_script(ShellWords const& words) {
  if (undecided_ > 0) return;
  if (!command_.empty()) {
    leaves_ = Leave::script;
    return;
  }
  // Before its command a script ends at what it takes as an error: the user sees what is missing.
  note_at(words.front(), "the script ends here (exit); it is followed as if it did not");
}

void ShellInterpreter::forget(std::string const& name) {
  if (given_.contains(name)) return;
  variables_.erase(name);
  doubts_.settle(name, {}, false);
}

ShellInterpreter::Status ShellInterpreter::calculate(std::string const& expression) {
  std::string const text = joined(expand({expression, 0, 0}, variables_));
  std::size_t const start = std::min(text.find_first_not_of(" \t"), text.size());
  auto end = start;
  while (end < text.size() && is_name_character(text[end])) ++end;
  std::string const name = text.substr(start, end - start);
  std::size_t const next = std::min(text.find_first_not_of(" \t", end), text.size());
  std::string_view const rest = std::string_view{text}.substr(next);
  std::string value;
  if (rest.starts_with('=') && !rest.starts_with("==")) value = rest.substr(1);
  if (rest.size() > 1 && rest[1] == '=' &&
      std::string_view{"+-*/%"}.find(rest[0]) != std::string::npos) {
    value = name + rest[0] + "(" + std::string{rest.substr(2)} + ")";
  }
  if (rest == "++" || rest == "--") value = name + rest[0] + "1";
  if (!is_variable_name(name) || value.empty()) {
    auto const result = shell_arithmetic(text, variables_);
    return result ? Status{*result != 0} : std::nullopt;
  }
  // A variable that is not set counts as 0.
  if (!variables_.contains(name) && value.starts_with(name)) value.replace(0, name.size(), "0");
  auto const result = shell_arithmetic(value, variables_);
  if (!result) {
    forget(name);
    return std::nullopt;
  }
  remember(name, {{{std::to_string(*result), 0, 0}}}, {"$((" + text + "))"});
  return *result != 0;
}

void ShellInterpreter::shift(ShellWords const& words) {
  ShellWords all = variables_["@"].elements;
  std::size_t number = 1;
  if (words.size() > 1) {
    auto const count = parse_number<std::size_t>(words[1].text);
    if (!count) return;
    number = *count;
  }
  if (number > all.size()) return;
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(number));
  set_arguments(std::move(all));
}

bool ShellInterpreter::assign_element(ShellToken const& token) {
  std::string const& text = token.word.text;
  std::size_t const bracket = text.find('[');
  std::size_t const close = text.find(']');
  if (bracket == std::string::npos || close == std::string::npos) return false;
  std::string const name = text.substr(0, bracket);
  auto const index = shell_arithmetic(text.substr(bracket + 1, close - bracket - 1), variables_);
  ShellVariable value = variables_[name];
  auto const size = static_cast<std::int64_t>(value.elements.size());
  if (!index || *index < 0 || *index > size || text[close + 1] != '=') {
    forget(name);
    return true;
  }
  ShellWord element = token.word;
  element.text = text.substr(close + 2);
  std::vector<std::string> const written{element.text};
  element.text = joined(expand_and_set(element, variables_));
  if (*index == size) {
    value.elements.push_back(element);
  } else {
    value.elements[static_cast<std::size_t>(*index)] = element;
  }
  remember(name, std::move(value), written, true);
  return true;
}

}  // namespace stagecraft
