#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/import/shell/shell_condition.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"

namespace stagecraft {
namespace {

/// Words that declare what stands behind them.
constexpr std::array<std::string_view, 5> declaring_words{"export", "local", "declare", "readonly",
                                                          "typeset"};
/// Words before a command that do not change what it gets.
constexpr std::array<std::string_view, 4> leading_words{"time", "exec", "command", "builtin"};

bool has_flag(ShellWords const& words) {
  return std::any_of(words.begin(), words.end(), [](ShellWord const& word) {
    return word.text == "--num-layers" || word.text == "--encoder-num-layers" ||
           word.text.rfind("--num-layers=", 0) == 0;
  });
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
    std::vector<std::string> ignored;
    for (ShellToken const& token : shell_tokens(word.text, ignored)) {
      if (token.kind != ShellToken::Kind::word) continue;
      for (ShellWord& inner : expand(token.word, variables)) {
        result.push_back({std::move(inner.text), word.line, word.column});
      }
    }
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

/// Whether a value begins or ends with what its variable has had, among other words:
/// `A="$A --flag"`. A script that starts so starts from nothing.
bool adds_to_itself(std::string_view name, std::string_view value) {
  if (value.find_first_of(" \t\n") == std::string_view::npos) return false;
  auto const names = open_names(value);
  return value.find("$((") == std::string_view::npos &&
         std::ranges::find(names, name) != names.end();
}

bool is_test_word(std::string_view word) { return word == "[" || word == "[[" || word == "test"; }

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

}  // namespace

ShellInterpreter::Status ShellInterpreter::execute(ShellCommand const& command) {
  auto token = command.tokens.begin();
  auto const end = command.tokens.end();
  if (token == end) return true;
  bool const is_negated = token->word.text == "!" && token + 1 != end;
  if (is_negated) ++token;
  if (is_test_word(token->word.text)) return holds(command.tokens, variables_);
  Status status;
  if (token->word.text.starts_with("((") && token->word.text.ends_with("))")) {
    status = calculate(token->word.text.substr(2, token->word.text.size() - 4));
  } else if (std::ranges::find(declaring_words, token->word.text) != declaring_words.end()) {
    declare({token, end});
    status = true;
  } else {
    status = execute_words(command, token);
  }
  return is_negated && status ? Status{!*status} : status;
}

ShellInterpreter::Status ShellInterpreter::execute_words(
    ShellCommand const& command, std::vector<ShellToken>::const_iterator first) {
  auto const end = command.tokens.end();
  while (first != end &&
         std::ranges::find(leading_words, first->word.text) != leading_words.end()) {
    ++first;
  }
  auto const assignments = first;
  while (first != end && is_assignment(*first)) ++first;
  if (first != end && (first->word.text == "source" || first->word.text == ".")) {
    note_at(first->word, "another script is read, which is not followed");
    return std::nullopt;
  }
  // A command gets its words before what is assigned for it.
  ShellWords const words = words_of(first, end);
  std::vector<Local> before;
  for (auto token = assignments; token != first; ++token) {
    std::string const name = token->word.text.substr(0, token->word.text.find_first_of("=+["));
    auto const known = variables_.find(name);
    before.push_back(
        {name, known == variables_.end() ? std::nullopt : std::optional{known->second}});
    assign(*token);
  }
  if (words.empty()) {
    bool const cuts =
        std::ranges::any_of(before, [](Local const& local) { return local.name == "IFS"; });
    if (cuts) note_at(command.place, "words are cut at blanks, not as IFS says");
    return true;
  }
  std::vector<std::string> const written = written_words({first, end});
  std::string const& name = words.front().text;
  Status status;
  if (name == "true" || name == ":" || name == "false") {
    status = name != "false";
  } else if (name == "getopts" && variables_["@"].elements.empty()) {
    status = false;
  } else if (execute_builtin(words, written)) {
    status = true;
  } else if (auto const function = functions_.find(name); function != functions_.end()) {
    call(*function->second, words, written);
  } else if (ShellWords const all = cut_again(words, variables_);
             name != "echo" && name != "printf" && has_flag(all)) {
    start(command, all);
    return std::nullopt;  // what is set for it is part of its environment
  }
  for (auto local = before.rbegin(); local != before.rend(); ++local) {
    if (local->before) {
      variables_[local->name] = std::move(*local->before);
    } else {
      variables_.erase(local->name);
    }
  }
  return status;
}

void ShellInterpreter::start(ShellCommand const& command, ShellWords words) {
  command_ = std::move(words);
  std::vector<std::string> written = written_words(command.tokens);
  written.insert(written.end(), written_again_.begin(), written_again_.end());
  // What stands before the program is the launcher's.
  auto const program = std::ranges::find_if(
      written, [](std::string const& text) { return text.find(".py") != std::string::npos; });
  bool const is_known = program != written.end() && program->find(' ') == std::string::npos;
  if (is_known) written.erase(written.begin(), program + 1);
  doubts_of_command_ = doubts_.reaching(written);
}

void ShellInterpreter::execute_again(ShellWords const& words) {
  if (depth_ == deepest_ || ++runs_ > most_runs_) return;
  std::string text;
  for (auto word = words.begin() + 1; word != words.end(); ++word) text += word->text + " ";
  std::vector<std::string> ignored;
  std::vector<ShellToken> tokens = shell_tokens(text, ignored);
  auto const place = [&](ShellWord& word) {
    word.line = words.front().line;
    word.column = words.front().column;
  };
  for (ShellToken& token : tokens) {
    place(token.word);
    for (ShellWord& element : token.elements) place(element);
  }
  ++depth_;
  follow_all(scripts_.emplace_back(shell_commands(tokens)));
  --depth_;
}

ShellWords ShellInterpreter::words_of(std::vector<ShellToken>::const_iterator token,
                                      std::vector<ShellToken>::const_iterator end) {
  ShellWords words;
  for (; token != end; ++token) {
    if (token->kind == ShellToken::Kind::operation) {
      std::string const& text = token->word.text;
      bool const redirects = text == ">" || text == "<" || text == "<<<";
      if (redirects && token + 1 != end) ++token;
      // `<(...)` is a file with what a command prints.
      int depth = token->word.text == "(" ? 1 : 0;
      while (redirects && depth > 0 && token + 1 != end) {
        ++token;
        if (token->word.text == "(") ++depth;
        if (token->word.text == ")") --depth;
      }
      continue;
    }
    for (ShellWord& word : expand_and_set(token->word, variables_)) {
      words.push_back(std::move(word));
    }
  }
  return words;
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

void ShellInterpreter::declare(std::vector<ShellToken> const& tokens) {
  if (tokens.front().word.text == "local") keep_locals(tokens);
  bool is_map = false;
  for (auto token = tokens.begin() + 1; token != tokens.end(); ++token) {
    std::string const& text = token->word.text;
    if (token->kind == ShellToken::Kind::operation) break;
    if (text.starts_with('-') || text.starts_with('+')) {
      is_map = is_map || text.find('A') != std::string::npos;
    } else if (is_map) {
      forget(text.substr(0, text.find('=')));  // arrays by name are not known
    } else if (is_assignment(*token)) {
      assign(*token);
    }
  }
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
      for (ShellWord& word : expand_and_set(element, variables_)) {
        value.elements.push_back(std::move(word));
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
  if (appends && !variables_[name].elements.empty()) joined = variables_[name].elements[0].text;
  // An assigned value is not split: the value of `$A` keeps its blanks.
  bool is_first = true;
  for (ShellWord const& word : expand_and_set(value, variables_)) {
    joined += (is_first ? "" : " ") + word.text;
    is_first = false;
  }
  value.text = joined;
  remember(name, {{value}}, written, appends);
  return true;
}

void ShellInterpreter::remember(std::string const& name,
                                ShellVariable value,
                                std::vector<std::string> const& written,
                                bool appends) {
  bool const is_open = std::ranges::any_of(
      value.elements, [](ShellWord const& word) { return is_unresolved(word.text); });
  if (is_open && given_.contains(name)) return;
  for (ShellWord& word : value.elements) {
    if (is_command_output(word.text)) word.text = "${" + name + "}";
  }
  doubts_.settle(name, written, appends);
  ShellWords words = cut_again(value.elements, variables_);
  if (has_flag(words)) {
    flags_of_variable_ = std::move(words);
    doubts_of_variable_ = doubts_.reaching({"$" + name});
  }
  variables_[name] = std::move(value);
}

}  // namespace stagecraft
