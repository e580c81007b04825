#include "libsim/import/shell/shell_commands.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace stagecraft {
namespace {

using TokenKind = ShellToken::Kind;

constexpr std::array<std::string_view, 8> closing_words{"then", "else", "elif", "fi",
                                                        "do",   "done", "esac", "}"};
constexpr std::array<std::string_view, 7> separators{";", "&", "&&", "||", "|", ";;", "|&"};

/// Reads commands from `at_` on. Each reader stops at the word that closes what it reads, or at the
/// end of the tokens.
class CommandParser {
 public:
  explicit CommandParser(std::vector<ShellToken> const& tokens) : tokens_{tokens} {}

  ShellCommands run() {
    ShellCommands all;
    while (!is_at_end()) {
      for (ShellCommand& command : list()) all.push_back(std::move(command));
      ++at_;  // a word that closes nothing
    }
    return all;
  }

 private:
  using Kind = ShellCommand::Kind;
  static constexpr int deepest_ = 64;  ///< commands within commands; deeper ones are words

  bool is_at_end() const { return at_ >= tokens_.size(); }
  bool is_newline() const { return !is_at_end() && tokens_[at_].kind == TokenKind::newline; }
  bool is_word(std::string_view text) const {
    return !is_at_end() && tokens_[at_].kind == TokenKind::word && tokens_[at_].word.text == text;
  }
  bool is_operation(std::string_view text, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == TokenKind::operation &&
           tokens_[at_ + ahead].word.text == text;
  }
  bool is_separator() const {
    return is_newline() ||
           (!is_at_end() && tokens_[at_].kind == TokenKind::operation &&
            std::ranges::find(separators, tokens_[at_].word.text) != separators.end());
  }
  static bool is_joint(ShellToken const& token) {
    return token.kind == TokenKind::operation &&
           (token.word.text == "&&" || token.word.text == "||");
  }
  bool takes(std::string_view word) {
    if (!is_word(word)) return false;
    ++at_;
    return true;
  }
  void skip_newlines() {
    while (is_newline()) ++at_;
  }

  /// Whether a list ends here: at a word that closes it, the end of a pattern's commands, or the
  /// bracket of a subshell.
  bool closes_list() const {
    if (is_at_end()) return true;
    if (tokens_[at_].kind == TokenKind::operation) {
      return tokens_[at_].word.text == ";;" || (tokens_[at_].word.text == ")" && subshells_ > 0) ||
             (is_operation(";") && is_operation("&", 1));
    }
    return tokens_[at_].kind == TokenKind::word &&
           std::ranges::find(closing_words, tokens_[at_].word.text) != closing_words.end();
  }

  ShellCommands list() {
    ShellCommands commands;
    while (true) {
      while (is_separator() && !closes_list()) ++at_;
      if (closes_list()) return commands;
      ShellCommand next = command();
      if (is_operation("&&") || is_operation("||") || is_operation("|")) {
        next.after = tokens_[at_++].word.text;
        skip_newlines();
      } else if (is_operation("&")) {
        next.after = "&";
      }
      commands.push_back(std::move(next));
    }
  }

  /// Whether a command with others inside it begins.
  bool is_compound(std::size_t ahead) const {
    constexpr std::array<std::string_view, 6> words{"{", "if", "while", "until", "for", "case"};
    return is_operation("(", ahead) ||
           (at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == TokenKind::word &&
            std::ranges::find(words, tokens_[at_ + ahead].word.text) != words.end());
  }

  ShellCommand command() {
    ShellCommand command;
    command.place = tokens_[at_].word;
    if (is_word("time") && is_compound(1)) ++at_;
    if (is_word("!") && depth_ < deepest_ && is_compound(1)) {
      ++at_;
      command = this->command();
      command.is_negated = true;
      return command;
    }
    if (depth_ == deepest_) {
      read_simple(command);
      return command;
    }
    ++depth_;
    if (takes("if")) {
      read_condition(command);
    } else if (is_word("while") || is_word("until")) {
      command.kind = Kind::loop;
      command.tokens.push_back(tokens_[at_++]);
      ShellBranch& branch = command.branches.emplace_back();
      branch.condition = list();
      branch.body = body("do", "done");
    } else if (is_word("for") || is_word("select")) {
      read_loop(command);
    } else if (takes("case")) {
      read_choice(command);
    } else if (takes("{")) {
      command.kind = Kind::group;
      command.branches.emplace_back().body = list();
      takes("}");
    } else if (is_operation("(")) {
      command.kind = Kind::subshell;
      ++at_;
      ++subshells_;
      command.branches.emplace_back().body = list();
      --subshells_;
      if (is_operation(")")) ++at_;
    } else if (is_function()) {
      read_function(command);
    } else {
      read_simple(command);
    }
    --depth_;
    if (command.kind != Kind::simple && command.kind != Kind::function) skip_redirections();
    return command;
  }

  /// A list between two words.
  ShellCommands body(std::string_view open, std::string_view close) {
    while (is_separator()) ++at_;
    takes(open);
    // Inside other words a bracket closes no subshell.
    int const subshells = std::exchange(subshells_, 0);
    ShellCommands commands = list();
    subshells_ = subshells;
    takes(close);
    return commands;
  }

  /// What follows the closing word of a command.
  void skip_redirections() {
    while (!is_separator() && !closes_list()) ++at_;
  }

  void read_condition(ShellCommand& command) {
    command.kind = Kind::condition;
    do {
      ShellBranch& branch = command.branches.emplace_back();
      branch.condition = list();
      takes("then");
      branch.body = list();
    } while (takes("elif"));
    if (takes("else")) command.branches.emplace_back().body = list();
    takes("fi");
  }

  void read_loop(ShellCommand& command) {
    ShellToken const keyword = tokens_[at_++];
    bool const is_arithmetic = !is_at_end() && tokens_[at_].word.text.starts_with("((");
    command.kind = keyword.word.text == "for" && !is_arithmetic ? Kind::for_each : Kind::other;
    if (command.kind == Kind::other) command.tokens.push_back(keyword);
    while (!is_at_end() && !is_word("do") && !is_separator()) {
      if (tokens_[at_].kind == TokenKind::word) command.tokens.push_back(tokens_[at_]);
      ++at_;
    }
    command.branches.emplace_back().body = body("do", "done");
  }

  void read_choice(ShellCommand& command) {
    command.kind = Kind::choice;
    skip_newlines();
    if (!is_at_end()) command.tokens.push_back(tokens_[at_++]);
    skip_newlines();
    takes("in");
    while (true) {
      while (is_separator()) ++at_;
      if (is_at_end() || takes("esac")) return;
      read_choice_branch(command.branches.emplace_back());
    }
  }

  void read_choice_branch(ShellBranch& branch) {
    for (; !is_at_end() && !is_operation(")"); ++at_) {
      if (tokens_[at_].kind == TokenKind::word) branch.patterns.push_back(tokens_[at_]);
    }
    if (!is_at_end()) ++at_;
    int const subshells = std::exchange(subshells_, 0);
    while (true) {
      for (ShellCommand& command : list()) branch.body.push_back(std::move(command));
      bool const is_misplaced = !is_at_end() && tokens_[at_].kind == TokenKind::word;
      if (!is_misplaced || is_word("esac")) break;
      ++at_;
    }
    subshells_ = subshells;
    while (is_operation(";;") || is_operation(";") || is_operation("&")) {
      branch.end += tokens_[at_++].word.text;
    }
  }

  bool is_function() const {
    return is_word("function") || (!is_at_end() && tokens_[at_].kind == TokenKind::word &&
                                   is_operation("(", 1) && is_operation(")", 2));
  }

  void read_function(ShellCommand& command) {
    command.kind = Kind::function;
    takes("function");
    if (!is_at_end() && tokens_[at_].kind == TokenKind::word) {
      command.tokens.push_back(tokens_[at_++]);
    }
    if (is_operation("(") && is_operation(")", 1)) at_ += 2;
    skip_newlines();
    if (!is_at_end() && !closes_list()) {
      command.branches.emplace_back().body.push_back(this->command());
    }
  }

  void read_simple(ShellCommand& command) {
    bool is_test = false;
    for (int depth = 0; !is_at_end(); ++at_) {
      if (is_word("[[") && command.tokens.empty()) is_test = true;
      if (is_test && is_newline() && is_joint(command.tokens.back())) continue;
      if (is_test ? is_newline() : is_separator()) return;
      if (is_operation("(")) ++depth;
      if (is_operation(")") && --depth < 0) {
        if (subshells_ > 0) return;
        depth = 0;
      }
      command.tokens.push_back(tokens_[at_]);
      if (is_test && is_word("]]")) is_test = false;
    }
  }

  std::vector<ShellToken> const& tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int subshells_ = 0;  ///< that are open
};

}  // namespace

ShellCommands shell_commands(std::vector<ShellToken> const& tokens) {
  return CommandParser{tokens}.run();
}

std::vector<ShellToken> all_tokens(ShellCommands const& commands) {
  std::vector<ShellToken> tokens;
  for (ShellCommand const& command : commands) {
    tokens.insert(tokens.end(), command.tokens.begin(), command.tokens.end());
    if (!command.after.empty()) {
      tokens.push_back({ShellToken::Kind::operation, {command.after, 0, 0}, false, {}});
    }
  }
  return tokens;
}

}  // namespace stagecraft
