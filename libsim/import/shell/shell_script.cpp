#include "libsim/import/shell/shell_script.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "libsim/import/shell/shell_condition.hpp"
#include "libsim/import/shell/shell_expansion.hpp"

namespace stagecraft {
namespace {

using Tokens = std::vector<ShellToken>;

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
      for (ShellWord inner : expand(token.word, variables)) {
        inner.line = word.line;
        inner.column = word.column;
        result.push_back(std::move(inner));
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

/// Follows a script statement by statement. It owns the values of variables, the open branches and
/// the position in the script; a statement in a branch that is not taken sets no variable.
class Interpreter {
 public:
  Interpreter(Tokens tokens,
              ShellVariables variables,
              std::set<std::string, std::less<>> const& given)
      : tokens_{std::move(tokens)}, variables_{std::move(variables)}, given_{given} {}

  ScriptOutcome run() {
    follow_all();
    return {std::move(command_), std::move(flags_of_variable_), std::move(variables_),
            std::move(notes_)};
  }

 private:
  /// An open `if`: whether its current branch runs, and whether one has run or is unknown.
  struct Branch {
    bool runs = false;
    bool is_settled = false;
  };

  /// What a statement leaves before its end.
  enum class Leave : std::uint8_t { nothing, iteration, loop, function };

  static constexpr int most_runs_ = 256;  ///< of bodies of loops and functions
  static constexpr int deepest_ = 16;     ///< bodies within bodies

  void follow_all() {
    while (at_ < tokens_.size()) {
      Tokens const statement = next_statement();
      if (!statement.empty()) follow(statement);
    }
  }

  /// Follows the body of a loop or a function.
  void follow_body(Tokens body) {
    if (body.empty()) return;
    if (depth_ == deepest_ || ++runs_ > most_runs_) {
      return note(body.front(), "loops and functions are followed 256 times, 16 deep at most");
    }
    ++depth_;
    std::swap(tokens_, body);
    std::size_t const at = std::exchange(at_, 0);
    std::vector<Branch> branches = std::exchange(branches_, {});
    follow_all();
    branches_ = std::move(branches);
    at_ = at;
    std::swap(tokens_, body);
    --depth_;
  }

  /// A loop over words. Words that only the shell knows are one element.
  void follow_loop(Tokens const& statement) {
    bool const is_list = statement.size() > 2 && statement[2].word.text == "in";
    Tokens const body = block(statement, "do", "done");
    if (!is_running()) return;
    if (!is_list) return note(statement.front(), "a loop is not followed");
    ShellWords elements;
    for (auto token = statement.begin() + 3; token != statement.end(); ++token) {
      for (ShellWord const& word : expand(token->word, variables_)) elements.push_back(word);
    }
    for (ShellWord const& element : elements) {
      remember(statement[1].word.text, {{element}});
      follow_body(body);
      if (leaves_ == Leave::function) at_ = tokens_.size();
      if (leaves_ != Leave::iteration && leaves_ != Leave::nothing) break;
      leaves_ = Leave::nothing;
    }
    if (leaves_ == Leave::loop) leaves_ = Leave::nothing;
  }

  static Leave left_by(std::string_view word) {
    return word == "continue" ? Leave::iteration
           : word == "break"  ? Leave::loop
           : word == "return" ? Leave::function
                              : Leave::nothing;
  }

  /// A test that decides whether the statement behind && or || runs. Statements that are skipped
  /// are behind it then.
  void follow_test(Tokens const& statement) {
    std::string const joint = at_ > 0 ? tokens_[at_ - 1].word.text : "";
    if (joint != "&&" && joint != "||") return;
    auto const truth = holds(statement, variables_);
    if (!truth) {
      if (at_ == tokens_.size() || left_by(tokens_[at_].word.text) == Leave::nothing) return;
      note(statement.front(),
           "a condition that the script does not decide; what follows is skipped");
    } else if (*truth == (joint == "&&")) {
      return;
    }
    do {
      next_statement();
    } while (at_ < tokens_.size() && tokens_[at_ - 1].word.text == joint);
  }

  /// Keeps what variables are that the function has of its own from here on.
  void keep_locals(Tokens const& statement) {
    if (functions_open_ == 0) return;
    for (auto token = statement.begin() + 1; token != statement.end(); ++token) {
      std::string const name = token->word.text.substr(0, token->word.text.find_first_of("=+"));
      auto const known = variables_.find(name);
      locals_.push_back(
          {name, known == variables_.end() ? std::nullopt : std::optional{known->second}});
    }
  }

  /// Moves the arguments of a script or a function.
  void shift(ShellWords const& words) {
    ShellWords& all = variables_["@"].elements;
    std::size_t number = 1;
    if (words.size() > 1) {
      std::string const& text = words[1].text;
      auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc{} || end != text.data() + text.size()) return;
    }
    if (number > all.size()) return;
    std::size_t const before = all.size();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(number));
    for (std::size_t i = 0; i < before; ++i) {
      std::string const name = std::to_string(i + 1);
      if (i < all.size()) {
        variables_[name] = {{all[i]}};
      } else {
        variables_.erase(name);
      }
    }
  }

  /// Calls a function of the script; its arguments are $1, $2, ... meanwhile.
  void call(Tokens const& body, ShellWords const& words) {
    ShellVariables const before = variables_;
    auto const is_argument = [](auto const& entry) {
      return entry.first == "@" ||
             std::ranges::all_of(entry.first, [](unsigned char c) { return std::isdigit(c) != 0; });
    };
    std::erase_if(variables_, is_argument);
    for (std::size_t i = 1; i < words.size(); ++i) variables_[std::to_string(i)] = {{words[i]}};
    variables_["@"].elements.assign(words.begin() + 1, words.end());
    std::vector<Local> const of_caller = std::exchange(locals_, {});
    ++functions_open_;
    follow_body(body);
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
    std::erase_if(variables_, is_argument);
    for (auto const& entry : before) {
      if (is_argument(entry)) variables_.insert(entry);
    }
  }

  bool is_running() const {
    return std::all_of(branches_.begin(), branches_.end(), [](Branch const& b) { return b.runs; });
  }

  /// The tokens up to the end of a statement.
  Tokens next_statement() {
    Tokens statement;
    while (at_ < tokens_.size()) {
      ShellToken const& token = tokens_[at_++];
      if (token.kind == ShellToken::Kind::newline) break;
      std::string const& text = token.word.text;
      if (token.kind == ShellToken::Kind::operation) {
        if (text == ">" || text == "<" || text == "<<" || text == "(" || text == ")") {
          statement.push_back(token);
          continue;
        }
        break;
      }
      statement.push_back(token);
      bool const ends = text == "then" || text == "else" || text == "do" || text == "{";
      if (ends && statement.size() == 1) break;
    }
    return statement;
  }

  void note(ShellToken const& token, std::string const& text) {
    if (is_running()) notes_.push_back("line " + std::to_string(token.word.line) + ": " + text);
  }

  void follow(Tokens const& statement) {
    ShellToken const& first = statement.front();
    std::string const& word = first.word.text;
    bool const is_word = first.kind == ShellToken::Kind::word;
    if (is_word && word == "if") {
      begin_if(statement);
    } else if (is_word && (word == "elif" || word == "else")) {
      next_branch(statement, word == "else");
    } else if (is_word && word == "fi") {
      if (!branches_.empty()) branches_.pop_back();
    } else if (is_word && word == "for") {
      follow_loop(statement);
    } else if (is_word && (word == "while" || word == "until")) {
      note(first, "a loop is not followed");
      block(statement, "do", "done");
    } else if (is_word && word == "case") {
      note(first, "a case is not followed");
      skip_block("case", "esac", 1 - count(statement, "esac"));
    } else if (is_function(statement)) {
      std::string const& name = statement[word == "function" ? 1 : 0].word.text;
      Tokens body = block(statement, "{", "}");
      if (is_running()) functions_[name] = std::move(body);
    } else if (is_running()) {
      execute(statement);
    }
  }

  static int count(Tokens const& statement, std::string_view word) {
    return static_cast<int>(std::count_if(statement.begin(), statement.end(), [&](auto const& t) {
      return t.kind == ShellToken::Kind::word && t.word.text == word;
    }));
  }

  static bool is_function(Tokens const& statement) {
    return (statement.size() > 1 && statement.front().word.text == "function") ||
           (statement.size() >= 3 && statement[1].word.text == "(" &&
            statement[2].word.text == ")");
  }

  /// Moves past a block whose opening and closing words nest; `depth` of them are open.
  void skip_block(std::string_view open, std::string_view close, int depth) {
    bool has_begun = depth > 0;
    while (at_ < tokens_.size() && (depth > 0 || !has_begun)) {
      ShellToken const& token = tokens_[at_++];
      if (token.kind != ShellToken::Kind::word) continue;
      if (token.word.text == open) ++depth, has_begun = true;
      if (token.word.text == close) --depth;
    }
  }

  /// Moves past a block that begins in this statement or after it, and returns what is in it.
  Tokens block(Tokens const& statement, std::string_view open, std::string_view close) {
    Tokens inner;
    auto const start = std::ranges::find_if(
        statement, [&](ShellToken const& token) { return token.word.text == open; });
    if (start != statement.end()) inner.assign(start + 1, statement.end());
    int const depth = count(statement, open) - count(statement, close);
    if (start != statement.end() && depth <= 0) {
      if (!inner.empty()) inner.pop_back();  // the closing word
      return inner;
    }
    // The separator that ended the statement stands before what follows it.
    if (!inner.empty()) inner.push_back(tokens_[at_ - 1]);
    std::size_t const from = at_;
    skip_block(open, close, depth);
    auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(from);
    auto const last = tokens_.begin() + static_cast<std::ptrdiff_t>(at_);
    if (depth == 0) {
      first = std::find_if(first, last, [&](ShellToken const& t) { return t.word.text == open; });
      if (first != last) ++first;
    }
    inner.insert(inner.end(), first, first == last ? last : last - 1);
    return inner;
  }

  /// The condition after `if`, over all statements up to `then`.
  Tokens condition(Tokens const& statement) {
    Tokens all(statement.begin() + 1, statement.end());
    // The separator that ended the statement belongs to the condition if it joins tests.
    while (at_ <= tokens_.size() && at_ > 0) {
      ShellToken const& separator = tokens_[at_ - 1];
      if (separator.kind == ShellToken::Kind::operation) all.push_back(separator);
      if (at_ == tokens_.size()) break;
      Tokens const next = next_statement();
      if (!next.empty() && next.front().word.text == "then") {
        // `then` may be on the line of the first statement of the branch.
        break;
      }
      all.insert(all.end(), next.begin(), next.end());
    }
    while (!all.empty() && all.back().word.text == ";") all.pop_back();
    return all;
  }

  void begin_if(Tokens const& statement) {
    bool const counts = is_running();
    auto const truth = holds(condition(statement), variables_);
    if (counts && !truth) {
      note(statement.front(), "a condition that the script does not decide; its branch is skipped");
    }
    branches_.push_back({truth.value_or(false), truth.value_or(false)});
  }

  void next_branch(Tokens const& statement, bool is_else) {
    std::optional<bool> truth = true;
    if (!is_else) truth = holds(condition(statement), variables_);
    if (branches_.empty()) return;
    Branch& branch = branches_.back();
    branch.runs = !branch.is_settled && truth.value_or(false);
    branch.is_settled = branch.is_settled || branch.runs;
  }

  void execute(Tokens const& statement) {
    auto token = statement.begin();
    if (token->word.text == "[" || token->word.text == "[[" || token->word.text == "test") {
      return follow_test(statement);
    }
    if (token->word.text == "local") keep_locals(statement);
    while (token != statement.end() && token->kind == ShellToken::Kind::word &&
           (token->word.text == "export" || token->word.text == "local" ||
            token->word.text == "declare" || token->word.text == "readonly" ||
            token->word.text == "then" || token->word.text == "do" || token->word.text == "{" ||
            token->word.text == "time" || token->word.text == "exec")) {
      ++token;
    }
    while (token != statement.end() && assign(*token)) ++token;
    if (token == statement.end()) return;
    if (token->word.text == "source" || token->word.text == ".") {
      note(*token, "another script is read, which is not followed");
      return;
    }
    ShellWords words;
    for (; token != statement.end(); ++token) {
      if (token->kind == ShellToken::Kind::operation) {
        if (token->word.text == ">" || token->word.text == "<") {
          if (token + 1 != statement.end()) ++token;
        }
        continue;
      }
      for (ShellWord const& word : expand(token->word, variables_)) words.push_back(word);
    }
    if (!words.empty() && words.front().text == "eval") words = expanded_again(words);
    if (!words.empty()) {
      if (words.front().text == "shift") return shift(words);
      if (Leave const left = left_by(words.front().text); left != Leave::nothing && depth_ > 0) {
        leaves_ = left;
        at_ = tokens_.size();
        return;
      }
      if (auto const function = functions_.find(words.front().text); function != functions_.end()) {
        return call(Tokens{function->second}, words);
      }
    }
    words = cut_again(words, variables_);
    if (words.empty() || words.front().text == "echo" || words.front().text == "printf") return;
    if (has_flag(words)) command_ = std::move(words);
  }

  /// What `eval` makes of its words: one text, cut into words and expanded a second time.
  ShellWords expanded_again(ShellWords const& words) const {
    std::string text;
    for (auto word = words.begin() + 1; word != words.end(); ++word) text += word->text + " ";
    ShellWords again;
    std::vector<std::string> ignored;
    for (ShellToken const& token : shell_tokens(text, ignored)) {
      if (token.kind != ShellToken::Kind::word) continue;
      for (ShellWord word : expand(token.word, variables_)) {
        word.line = words.front().line;
        word.column = words.front().column;
        again.push_back(std::move(word));
      }
    }
    return again;
  }

  bool assign(ShellToken const& token) {
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

  void remember(std::string const& name, ShellVariable value) {
    bool const is_open = std::ranges::any_of(
        value.elements, [](ShellWord const& word) { return is_unresolved(word.text); });
    if (is_open && given_.contains(name)) return;
    for (ShellWord& word : value.elements) {
      if (is_command_output(word.text)) word.text = "${" + name + "}";
    }
    ShellWords words;
    for (ShellWord const& element : value.elements) words.push_back(element);
    words = cut_again(words, variables_);
    if (has_flag(words)) flags_of_variable_ = words;
    variables_[name] = std::move(value);
  }

  Tokens tokens_;
  ShellVariables variables_;
  std::set<std::string, std::less<>> const& given_;
  std::vector<Branch> branches_;
  std::vector<std::string> notes_;
  ShellWords command_;
  ShellWords flags_of_variable_;
  std::map<std::string, Tokens, std::less<>> functions_;
  std::size_t at_ = 0;
  struct Local {
    std::string name;
    std::optional<ShellVariable> before;
  };
  std::vector<Local> locals_;  ///< of the function that is followed
  Leave leaves_ = Leave::nothing;
  int functions_open_ = 0;
  int depth_ = 0;  ///< of bodies that are followed
  int runs_ = 0;   ///< of bodies so far
};

}  // namespace

ScriptOutcome follow_script(std::vector<ShellToken> tokens,
                            ShellVariables variables,
                            std::set<std::string, std::less<>> const& given) {
  return Interpreter{std::move(tokens), std::move(variables), given}.run();
}

}  // namespace stagecraft
