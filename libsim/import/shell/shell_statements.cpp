#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/import/shell/shell_braces.hpp"
#include "libsim/import/shell/shell_condition.hpp"
#include "libsim/import/shell/shell_expansion.hpp"
#include "libsim/import/shell/shell_interpreter.hpp"
#include "libsim/import/shell/shell_launch_words.hpp"

namespace stagecraft {
namespace {

/// Words that declare what stands behind them.
constexpr std::array<std::string_view, 5> declaring_words{"export", "local", "declare", "readonly",
                                                          "typeset"};
/// Words before a command that do not change what it gets.
constexpr std::array<std::string_view, 4> leading_words{"time", "exec", "command", "builtin"};

/// Commands that are taken to succeed.
constexpr std::array<std::string_view, 15> succeeding_words{
    "echo", "printf", "pwd",   "cd",     "mkdir", "pushd", "popd", "sleep",
    "wait", "trap",   "umask", "ulimit", "alias", "touch", "date"};

/// Commands that start a script, those that read one, and how the names of scripts end.
constexpr std::array<std::string_view, 5> starting_words{"sbatch", "srun", "qsub", "bash", "sh"};
constexpr std::array<std::string_view, 2> reading_words{".", "source"};
constexpr std::array<std::string_view, 4> script_endings{".sh", ".bash", ".sbatch", ".slurm"};

/// Whether words contain the output of a command.
bool has_command(std::vector<std::string> const& written) {
  return std::ranges::any_of(written, [](std::string const& text) {
    if (text.find('`') != std::string::npos) return true;
    for (std::size_t at = text.find("$("); at != std::string::npos; at = text.find("$(", at + 2)) {
      if (text.substr(at, 3) != "$((") return true;
    }
    return false;
  });
}

bool is_test_word(std::string_view word) { return word == "[" || word == "[[" || word == "test"; }

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
  if (first != end && std::ranges::find(reading_words, first->word.text) != reading_words.end()) {
    note_at(first->word, "another script is read, which is not followed");
    hand_over(words_of(first, end));
    return std::nullopt;
  }
  // A command gets its words before what is assigned for it.
  std::vector<std::string> const written = written_words({first, end});
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
    bool const runs_commands = std::any_of(assignments, first, [](ShellToken const& token) {
      return has_command(written_words({token}));
    });
    return runs_commands ? std::nullopt : Status{true};
  }
  std::string const& name = words.front().text;
  Status status;
  if (name == "true" || name == ":" || name == "false") {
    status = name != "false";
  } else if (name == "getopts" && variables_["@"].elements.empty()) {
    status = false;
  } else if (execute_builtin(words, written, status)) {
  } else if (auto const function = functions_.find(name); function != functions_.end()) {
    status = call(*function->second, words, written);
  } else if (std::ranges::find(succeeding_words, name) != succeeding_words.end()) {
    status = true;
  } else if (ShellWords const all = cut_again(words, variables_, false);
             has_layers(all) || !started_program(all).name.empty()) {
    start(command, all);
  } else {
    hand_over(words);
  }
  restore(before);
  return status;
}

void ShellInterpreter::hand_over(ShellWords const& words) {
  auto const is_script = [](ShellWord const& word) {
    return std::ranges::any_of(
        script_endings, [&](std::string_view ending) { return word.text.ends_with(ending); });
  };
  std::string const& name = words.front().text;
  bool const reads = std::ranges::find(reading_words, name) != reading_words.end();
  bool const starts = std::ranges::find(starting_words, name) != starting_words.end();
  auto const script = reads || starts ? std::ranges::find_if(words, is_script) : words.begin();
  if (script == words.end() || !is_script(*script)) return;
  ShellWord call = words.front();
  call.text = shell_word(script->text.substr(script->text.rfind('/') + 1));
  for (auto word = script + 1; word != words.end(); ++word) {
    call.text += " " + shell_word(word->text);
  }
  handed_to_.push_back({std::move(call), reads});
}

void ShellInterpreter::restore(std::vector<Local>& locals) {
  for (auto local = locals.rbegin(); local != locals.rend(); ++local) {
    attributes_.references.erase(local->name);
    if (local->before) {
      variables_[local->name] = std::move(*local->before);
    } else {
      variables_.erase(local->name);
    }
  }
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
  for (std::size_t const number : ends_) doubts_of_command_[number].insert("--num-layers");
  variables_of_command_ = variables_;  // among them what is set for it alone
}

ShellInterpreter::Status ShellInterpreter::execute_again(ShellWords const& words) {
  Status status;
  if (depth_ == deepest_ || ++runs_ > most_runs_) return status;
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
  status = follow_all(scripts_.emplace_back(shell_commands(tokens)));
  --depth_;
  return status;
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
    for (ShellWord const& written : in_braces(token->word)) {
      for (ShellWord& word : expand_and_set(written, variables_)) words.push_back(std::move(word));
    }
  }
  return words;
}

}  // namespace stagecraft
