#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "libsim/import/shell/shell_condition.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"

namespace stagecraft {
namespace {

/// Words before an assignment or a command that change neither.
constexpr std::array<std::string_view, 6> leading_words{"export",   "local", "declare",
                                                        "readonly", "time",  "exec"};

bool has_flag(ShellWords const& words) {
  return std::any_of(words.begin(), words.end(), [](ShellWord const& word) {
    return word.text == "--num-layers" || word.text == "--encoder-num-layers" ||
           word.text.rfind("--num-layers=", 0) == 0;
  });
}

/// The words of a text, which take the place of `where`, expanded.
ShellWords words_in(std::string_view text,
                    ShellWord const& where,
                    ShellVariables const& variables) {
  ShellWords words;
  std::vector<std::string> ignored;
  for (ShellToken const& token : shell_tokens(text, ignored)) {
    if (token.kind != ShellToken::Kind::word) continue;
    for (ShellWord word : expand(token.word, variables)) {
      words.push_back({std::move(word.text), where.line, where.column});
    }
  }
  return words;
}

/// Splits those words again that are whole commands in quotes (`bash -c "torchrun ..."`).
ShellWords cut_again(ShellWords const& words, ShellVariables const& variables) {
  ShellWords result;
  for (ShellWord const& word : words) {
    if (word.text.find("--num-layers") == std::string::npos ||
        word.text.find_first_of(" \t\n") == std::string::npos) {
      result.push_back(word);
      continue;
    }
    for (ShellWord& inner : words_in(word.text, word, variables))
      result.push_back(std::move(inner));
  }
  return result;
}

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

bool is_test_word(std::string_view word) { return word == "[" || word == "[[" || word == "test"; }

}  // namespace

ShellInterpreter::Status ShellInterpreter::execute(ShellCommand const& command) {
  auto token = command.tokens.begin();
  auto const end = command.tokens.end();
  if (is_test_word(token->word.text)) return holds(command.tokens, variables_);
  if (token->word.text == "local") keep_locals(command.tokens);
  while (token != end && token->kind == ShellToken::Kind::word &&
         std::ranges::find(leading_words, token->word.text) != leading_words.end()) {
    ++token;
  }
  while (token != end && assign(*token)) ++token;
  if (token == end) return true;
  if (token->word.text == "source" || token->word.text == ".") {
    note(token->word, "another script is read, which is not followed");
    return true;
  }
  ShellWords words = words_of(token, end);
  if (!words.empty() && words.front().text == "eval") words = expanded_again(words);
  if (words.empty()) return true;
  if (words.front().text == "shift") {
    shift(words);
    return true;
  }
  if (Leave const left = left_by(words.front().text); left != Leave::nothing && depth_ > 0) {
    leaves_ = left;
    return true;
  }
  if (auto const function = functions_.find(words.front().text); function != functions_.end()) {
    call(*function->second, words);
    return true;
  }
  words = cut_again(words, variables_);
  if (words.empty() || words.front().text == "echo" || words.front().text == "printf") return true;
  if (has_flag(words)) command_ = std::move(words);
  return true;
}

ShellWords ShellInterpreter::words_of(std::vector<ShellToken>::const_iterator token,
                                      std::vector<ShellToken>::const_iterator end) const {
  ShellWords words;
  for (; token != end; ++token) {
    if (token->kind == ShellToken::Kind::operation) {
      bool const redirects = token->word.text == ">" || token->word.text == "<";
      if (redirects && token + 1 != end) ++token;
      continue;
    }
    for (ShellWord const& word : expand(token->word, variables_)) words.push_back(word);
  }
  return words;
}

ShellWords ShellInterpreter::expanded_again(ShellWords const& words) const {
  std::string text;
  for (auto word = words.begin() + 1; word != words.end(); ++word) text += word->text + " ";
  return words_in(text, words.front(), variables_);
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

void ShellInterpreter::shift(ShellWords const& words) {
  ShellWords all = variables_["@"].elements;
  std::size_t number = 1;
  if (words.size() > 1) {
    std::string const& text = words[1].text;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return;
  }
  if (number > all.size()) return;
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(number));
  set_arguments(std::move(all));
}

bool ShellInterpreter::assign(ShellToken const& token) {
  if (token.kind == ShellToken::Kind::array) {
    ShellVariable value;
    if (token.appends) value = variables_[token.word.text];
    for (ShellWord const& element : token.elements) {
      for (ShellWord const& word : expand(element, variables_)) value.elements.push_back(word);
    }
    remember(token.word.text, std::move(value));
    return true;
  }
  if (token.kind != ShellToken::Kind::word) return false;
  std::string const& text = token.word.text;
  std::size_t const equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  bool const appends = text[equals - 1] == '+';
  std::string const name = text.substr(0, equals - (appends ? 1 : 0));
  if (!std::all_of(name.begin(), name.end(), is_name_character) || name.empty()) return false;
  ShellWord value = token.word;
  value.text = text.substr(equals + 1);
  std::string joined;
  if (appends && !variables_[name].elements.empty()) joined = variables_[name].elements[0].text;
  // An assigned value is not split: the value of `$A` keeps its blanks.
  bool is_first = true;
  for (ShellWord const& word : expand(value, variables_)) {
    joined += (is_first ? "" : " ") + word.text;
    is_first = false;
  }
  value.text = joined;
  remember(name, {{value}});
  return true;
}

void ShellInterpreter::remember(std::string const& name, ShellVariable value) {
  bool const is_open = std::ranges::any_of(
      value.elements, [](ShellWord const& word) { return is_unresolved(word.text); });
  if (is_open && given_.contains(name)) return;
  for (ShellWord& word : value.elements) {
    if (is_command_output(word.text)) word.text = "${" + name + "}";
  }
  ShellWords words = cut_again(value.elements, variables_);
  if (has_flag(words)) flags_of_variable_ = std::move(words);
  variables_[name] = std::move(value);
}

}  // namespace stagecraft
