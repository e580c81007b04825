#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/shell/shell_arithmetic.hpp"
#include "libsim/import/shell/shell_braces.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"
#include "libsim/import/shell/shell_launch_words.hpp"
#include "libsim/import/shell/shell_parameters.hpp"

namespace stagecraft {
namespace {

/// Whether a value is the output of a command and nothing else.
bool is_command_output(std::string_view text) {
  if (text.size() < 3) return false;
  if (text.front() == '`') return text.find('`', 1) == text.size() - 1;
  if (!text.starts_with("$(") || text.starts_with("$((") || text.back() != ')') return false;
  int depth = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i + 1 == text.size();
  }
  return false;
}

/// Whether a value begins or ends with what its variable has had, among other words:
/// `A="$A --flag"`. A script that starts so starts from nothing.
bool adds_to_itself(std::string_view name, std::string_view value) {
  if (value.find_first_of(" \t\n") == std::string_view::npos) return false;
  auto const names = open_names(value);
  return value.find("$((") == std::string_view::npos &&
         std::ranges::find(names, name) != names.end();
}

}  // namespace

bool is_assignment(ShellToken const& token) {
  if (token.kind == ShellToken::Kind::array) return true;
  if (token.kind != ShellToken::Kind::word) return false;
  if (!assigned_name(token.word.text).empty()) return true;
  std::string_view const text = token.word.text;
  std::size_t const bracket = text.find('[');
  std::size_t const equals = text.find("]=");
  std::size_t const appends = text.find("]+=");
  return bracket != 0 && bracket != std::string_view::npos &&
         std::ranges::all_of(text.substr(0, bracket), is_name_character) &&
         std::min(equals, appends) != std::string_view::npos;
}

void ShellInterpreter::keep_locals(std::vector<ShellToken> const& tokens) {
  if (functions_open_ == 0) return;
  for (auto token = tokens.begin() + 1; token != tokens.end(); ++token) {
    std::string const name = token->word.text.substr(0, token->word.text.find_first_of("=+"));
    auto const known = variables_.find(name);
    locals_.push_back(
        {name, known == variables_.end() ? std::nullopt : std::optional{known->second}});
  }
}

void ShellInterpreter::declare(std::vector<ShellToken> const& written) {
  std::vector<ShellToken> tokens;
  for (ShellToken const& token : written) {
    ShellWords const words =
        token.kind == ShellToken::Kind::word ? in_braces(token.word) : ShellWords{token.word};
    for (ShellWord const& word : words)
      tokens.push_back({token.kind, word, token.appends, token.elements});
  }
  std::string const& word = tokens.front().word.text;
  bool is_map = false;
  bool is_global = false;
  bool is_integer = false;
  bool is_reference = false;
  bool is_constant = word == "readonly";
  for (ShellToken const& token : tokens) {
    std::string const& text = token.word.text;
    if (!text.starts_with('-') || word == "export") continue;
    is_map = is_map || text.find('A') != std::string::npos;
    is_global = is_global || text.find('g') != std::string::npos;
    is_integer = is_integer || text.find('i') != std::string::npos;
    is_reference = is_reference || text.find('n') != std::string::npos;
    is_constant = is_constant || text.find('r') != std::string::npos;
  }
  if (word != "export" && word != "readonly" && !is_global) keep_locals(tokens);
  for (auto token = tokens.begin() + 1; token != tokens.end(); ++token) {
    std::string const& text = token->word.text;
    if (token->kind == ShellToken::Kind::operation) break;
    if (text.starts_with('-') || text.starts_with('+')) continue;
    std::string const name = text.substr(0, text.find_first_of("+=["));
    if (is_reference && text.size() > name.size()) {
      ShellWord value = token->word;
      value.text = text.substr(name.size() + 1);
      refer(name, expand_value(value, variables_));
      continue;
    }
    if (is_integer) attributes_.integers.insert(name);
    if (is_map) {
      forget(name);  // arrays by name are not known
    } else if (is_assignment(*token)) {
      assign(*token);
    }
    if (is_constant) attributes_.constants.insert(name);
  }
}

void ShellInterpreter::refer(std::string const& name, std::string const& target) {
  if (name == target) return;
  attributes_.references[name] = target;
  doubts_.settle(name, {"$" + target}, false);
  if (auto const known = variables_.find(target); known != variables_.end()) {
    variables_[name] = known->second;
  } else {
    variables_.erase(name);
  }
}

std::string ShellInterpreter::referred(std::string const& name) const {
  auto const reference = attributes_.references.find(name);
  return reference == attributes_.references.end() ? name : reference->second;
}

bool ShellInterpreter::assign(ShellToken const& token) {
  if (token.kind == ShellToken::Kind::array) {
    ShellVariable value;
    if (token.appends) value = variables_[token.word.text];
    for (ShellWord const& element : token.elements) {
      if (element.text.starts_with('[') && element.text.find("]=") != std::string::npos) {
        forget(token.word.text);  // arrays by number or name
        return true;
      }
      for (ShellWord const& one : in_braces(element)) {
        for (ShellWord& word : expand_and_set(one, variables_)) {
          value.elements.push_back(std::move(word));
        }
      }
    }
    remember(token.word.text, std::move(value), written_words({token}), token.appends);
    return true;
  }
  std::string const& text = token.word.text;
  std::string const name{assigned_name(text)};
  if (name.empty()) return assign_element(token);
  std::size_t const equals = text.find('=');
  bool const appends = text[equals - 1] == '+';
  ShellWord value = token.word;
  value.text = text.substr(equals + 1);
  std::vector<std::string> const written{value.text};
  if (!variables_.contains(name) && adds_to_itself(name, value.text)) variables_[name] = {};
  std::string joined;
  auto const known = variables_.find(referred(name));
  bool const is_array = known != variables_.end() && known->second.elements.size() > 1;
  if (appends && !variables_[name].elements.empty()) joined = variables_[name].elements[0].text;
  value.text = expand_value(value, variables_);
  if (attributes_.integers.contains(referred(name))) {
    if (appends) value.text = "(" + (joined.empty() ? "0" : joined) + ")+(" + value.text + ")";
    auto const number = shell_arithmetic(value.text.empty() ? "0" : value.text, variables_);
    if (!number) {
      forget(name);
      return true;
    }
    value.text = std::to_string(*number);
  } else {
    value.text = joined + value.text;
  }
  ShellVariable all{{value}};
  if (is_array) {  // what is assigned is its first element
    all = known->second;
    all.elements.front() = value;
  }
  remember(name, std::move(all), written, appends || is_array);
  return true;
}

void ShellInterpreter::remember(std::string const& written_name,
                                ShellVariable value,
                                std::vector<std::string> const& written,
                                bool appends) {
  std::string const name = referred(written_name);
  if (attributes_.constants.contains(name)) return;  // an error of bash, which goes on
  bool const is_open = std::ranges::any_of(
      value.elements, [](ShellWord const& word) { return is_unresolved(word.text); });
  if (is_open && given_.contains(name)) return;
  for (ShellWord& word : value.elements) {
    if (is_command_output(word.text)) word.text = "${" + name + "}";
  }
  doubts_.settle(name, written, appends);
  ShellWords words = cut_again(value.elements, variables_, true);
  if (has_layers(words)) {
    flags_of_variable_ = std::move(words);
    doubts_of_variable_ = doubts_.reaching({"$" + name});
  }
  variables_[name] = std::move(value);
  refresh_references(name);
}

void ShellInterpreter::refresh_references(std::string const& target) {
  auto const references = attributes_.references;
  for (auto const& [name, referred_to] : references) {
    if (referred_to == target) refer(name, target);
  }
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

void ShellInterpreter::forget(std::string const& written_name) {
  std::string const name = referred(written_name);
  if (given_.contains(name) || attributes_.constants.contains(name)) return;
  variables_.erase(name);
  doubts_.settle(name, {}, false);
  refresh_references(name);
}

}  // namespace stagecraft
