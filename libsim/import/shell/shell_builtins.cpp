#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
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
                                       std::vector<std::string> const& written,
                                       Status& status) {
  std::string const& name = words.front().text;
  status = true;
  if (name == "eval") {
    auto before = std::exchange(written_again_, written);
    status = execute_again(words);
    written_again_ = std::move(before);
  } else if (name == "shift") {
    status = shift(words);
  } else if (name == "exit") {
    leave_script(words);
  } else if (name == "set") {
    set_options(words, written);
  } else if (name == "shopt") {
    bool const is_set = words.size() > 1 && words[1].text == "-s";
    bool const changes = is_set || (words.size() > 1 && words[1].text == "-u");
    for (std::size_t i = 2; changes && i < words.size(); ++i) set_option(words[i].text, is_set);
    if (!changes) status = std::nullopt;
  } else if (name == "unset") {
    unset(words);
  } else if (name == "let") {
    for (auto word = words.begin() + 1; word != words.end(); ++word) status = calculate(word->text);
  } else if (reads_variables(words)) {
    for (auto word = words.begin() + 1; word != words.end(); ++word) {
      if (is_variable_name(word->text)) forget(word->text);
    }
    status = std::nullopt;
  } else if (Leave const left = left_by(name); left != Leave::nothing) {
    leave_body(left, words);
  } else {
    status = std::nullopt;
    return false;
  }
  return true;
}

void ShellInterpreter::unset(ShellWords const& words) {
  bool is_function = false;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    std::string const& text = word->text;
    std::size_t const bracket = text.find('[');
    if (text.starts_with('-')) {
      is_function = text == "-f";
    } else if (is_function) {
      functions_.erase(text);
    } else if (bracket != std::string::npos) {
      unset_element(text.substr(0, bracket),
                    text.substr(bracket + 1, text.find(']') - bracket - 1));
    } else if (is_variable_name(text) && !attributes_.constants.contains(text)) {
      variables_[text] = {};
      doubts_.settle(text, {}, false);
    }
  }
}

void ShellInterpreter::unset_element(std::string const& name, std::string const& index) {
  auto const known = variables_.find(name);
  if (known == variables_.end()) return;
  ShellWords& elements = known->second.elements;
  auto const number = shell_arithmetic(index, variables_);
  auto const size = static_cast<std::int64_t>(elements.size());
  if (number && (*number == size - 1 || *number == -1) && size > 0) {
    elements.pop_back();
  } else if (!number || (*number<size&& * number> - size)) {
    forget(name);  // arrays with gaps are not known
  }
}

void ShellInterpreter::set_option(std::string const& name, bool is_set) {
  ShellWords& options = variables_["SHELLOPTS"].elements;
  std::erase_if(options, [&](ShellWord const& option) { return option.text == name; });
  if (is_set) options.push_back({name, 0, 0});
}

void ShellInterpreter::set_options(ShellWords const& words,
                                   std::vector<std::string> const& written) {
  std::size_t i = 1;
  for (; i < words.size() && words[i].text.find_first_of("-+") == 0; ++i) {
    std::string const& text = words[i].text;
    if (text == "-" || text == "--") break;
    bool const is_set = text[0] == '-';
    if (text.find('e') != std::string::npos) set_option("errexit", is_set);
    if (text.ends_with('o') && i + 1 < words.size()) set_option(words[++i].text, is_set);
  }
  bool const has_dashes = i < words.size() && words[i].text == "--";
  if (i == words.size()) return;
  if (has_dashes || words[i].text == "-") ++i;
  set_arguments({words.begin() + static_cast<std::ptrdiff_t>(i), words.end()}, written);
  doubts_.settle("@", written, false);
}

ShellInterpreter::Status ShellInterpreter::calculate(std::string const& expression) {
  std::string const text = joined(expand({expression, 0, 0}, variables_));
  auto const step = shell_step(text, variables_);
  if (!step) {
    auto const result = shell_arithmetic(text, variables_);
    if (!result) {
      for (std::string const& name : names_set_in(text)) forget(name);
    }
    return result ? Status{*result != 0} : std::nullopt;
  }
  if (!step->value) {
    forget(step->name);
    return std::nullopt;
  }
  remember(step->name, {{{std::to_string(*step->value), 0, 0}}}, {"$((" + text + "))"});
  return *step->result != 0;
}

ShellInterpreter::Status ShellInterpreter::shift(ShellWords const& words) {
  ShellWords all = variables_["@"].elements;
  std::size_t number = 1;
  if (words.size() > 1) {
    auto const count = parse_number<std::size_t>(words[1].text);
    if (!count) return std::nullopt;
    number = *count;
  }
  if (number > all.size()) return variables_.contains("#") ? std::nullopt : Status{false};
  bool const is_counted = !variables_.contains("#");
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(number));
  set_arguments(std::move(all), {});
  if (!is_counted) variables_["#"] = {};
  return true;
}

}  // namespace stagecraft
