#include "libsim/import/shell/shell_tokens.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace stagecraft {
namespace {

/// Cuts a shell script into words, operators and ends of lines, without expanding anything. It goes
/// through the text once, from `at_`; here-documents are skipped at the end of the line that names
/// them, and lines of #SBATCH are collected beside the tokens. run() is called once.
class Tokenizer {
 public:
  Tokenizer(std::string_view script, std::vector<std::string>& sbatch)
      : text_{script}, sbatch_{sbatch} {}

  std::vector<ShellToken> run() {
    while (at_ < text_.size()) step();
    push(ShellToken::Kind::newline, "");
    return std::move(tokens_);
  }

 private:
  void step() {
    char const c = text_[at_];
    if (is_blank(c)) {
      advance();
    } else if (c == '\\' && peek(1) == '\n') {
      advance(2);
    } else if (c == '\n') {
      push(ShellToken::Kind::newline, "");
      advance();
      skip_here_documents();
    } else if (c == '#') {
      skip_comment();
    } else if (c == '(' && peek(1) == '(' && is_command_next() && read_arithmetic()) {
      return;
    } else if (std::string_view{";|&()<>"}.find(c) != std::string_view::npos) {
      read_operation();
    } else {
      read_word();
    }
  }

  char peek(std::size_t ahead) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void advance(std::size_t count = 1) {
    for (; count > 0 && at_ < text_.size(); --count, ++at_) {
      if (text_[at_] == '\n') {
        ++line_;
        column_ = 1;
      } else {
        ++column_;
      }
    }
  }
  void push(ShellToken::Kind kind, std::string text) {
    tokens_.push_back({kind, {std::move(text), line_, column_}, false, {}});
  }

  void skip_comment() {
    std::size_t const end = std::min(text_.find('\n', at_), text_.size());
    std::string_view const comment = text_.substr(at_, end - at_);
    if (comment.rfind("#SBATCH", 0) == 0) sbatch_.emplace_back(comment.substr(7));
    advance(end - at_);
  }

  /// Whether what follows begins a command, or the head of a loop.
  bool is_command_next() const {
    if (tokens_.empty() || tokens_.back().kind != ShellToken::Kind::word) return true;
    constexpr std::array<std::string_view, 10> words{"if",   "elif", "while", "until", "for",
                                                     "then", "else", "do",    "{",     "!"};
    return std::ranges::find(words, tokens_.back().word.text) != words.end();
  }

  /// Reads `((...))` as one word; false if no brackets close it.
  bool read_arithmetic() {
    int depth = 0;
    for (std::size_t end = at_; end < text_.size() && text_[end] != '\n'; ++end) {
      if (text_[end] == '(') ++depth;
      if (text_[end] == ')' && --depth == 0) {
        if (text_[end - 1] != ')') return false;
        push(ShellToken::Kind::word, std::string{text_.substr(at_, end + 1 - at_)});
        advance(end + 1 - at_);
        return true;
      }
    }
    return false;
  }

  void read_operation() {
    std::string operation{text_[at_]};
    if (text_.substr(at_).starts_with("<<<")) {
      push(ShellToken::Kind::operation, "<<<");
      return advance(3);
    }
    char const next = peek(1);
    if (next == text_[at_] && std::string_view{"|&;<"}.find(next) != std::string_view::npos) {
      operation += next;
    }
    push(ShellToken::Kind::operation, operation == "&" && next == '>' ? ">" : operation);
    advance(operation.size());
    if (operation == "<<") note_here_document();
    // `>>`, `>&1` and `&>` are redirections like `>`.
    bool const redirects =
        operation == ">" || operation == "<" || (operation == "&" && next == '>');
    while (redirects && (peek(0) == '>' || peek(0) == '&')) advance();
  }

  /// Reads the word after `<<`, which is the line that ends the document.
  void note_here_document() {
    if (peek(0) == '-') advance();
    while (is_blank(peek(0))) advance();
    std::string end;
    while (is_name_character(peek(0)) || peek(0) == '\'' || peek(0) == '"') {
      if (is_name_character(peek(0))) end += peek(0);
      advance();
    }
    here_documents_.push_back(end);
  }

  void skip_here_documents() {
    for (std::string const& end : here_documents_) {
      while (at_ < text_.size()) {
        std::size_t const stop = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, stop - at_);
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        advance(stop - at_ + 1);
        if (line == end) break;
      }
    }
    here_documents_.clear();
  }

  void read_word() {
    ShellToken token{ShellToken::Kind::word, {"", line_, column_}, false, {}};
    std::size_t const start = at_;
    skip_word();
    std::string_view const written = text_.substr(start, at_ - start);
    // The 2 of `2>&1` is the descriptor that is redirected.
    bool const is_number = std::all_of(written.begin(), written.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (is_number && (peek(0) == '>' || peek(0) == '<')) return;
    if (peek(0) == '(' && ends_as_assignment(written)) {
      token.kind = ShellToken::Kind::array;
      token.appends = written[written.size() - 2] == '+';
      token.word.text = written.substr(0, written.size() - (token.appends ? 2 : 1));
      advance();
      read_elements(token.elements);
    } else {
      token.word.text = written;
    }
    tokens_.push_back(std::move(token));
  }

  static bool ends_as_assignment(std::string_view written) {
    if (written.size() < 2 || written.back() != '=') return false;
    std::string_view name = written.substr(0, written.size() - 1);
    if (name.back() == '+') name.remove_suffix(1);
    return !name.empty() && std::all_of(name.begin(), name.end(), is_name_character);
  }

  void read_elements(std::vector<ShellWord>& elements) {
    while (at_ < text_.size() && peek(0) != ')') {
      if (is_blank(peek(0)) || peek(0) == '\n') {
        advance();
      } else if (peek(0) == '\\' && peek(1) == '\n') {
        advance(2);
      } else if (peek(0) == '#') {
        skip_comment();
      } else {
        ShellWord element{"", line_, column_};
        std::size_t const start = at_;
        skip_word();
        if (at_ == start) advance();  // an operator that is not expected here
        element.text = text_.substr(start, at_ - start);
        elements.push_back(std::move(element));
      }
    }
    advance();
  }

  /// Moves to the blank or operator that ends a word.
  void skip_word() {
    std::size_t const start = at_;
    while (at_ < text_.size()) {
      char const c = text_[at_];
      if (is_blank(c) || c == '\n') return;
      // A group of a pattern, such as `@(a|b)`; `!(...)` alone is a command.
      bool const is_group =
          c == '(' && at_ > start && text_[at_ - 1] != '$' &&
          std::string_view{"?*+@!"}.find(text_[at_ - 1]) != std::string_view::npos;
      if (is_group && text_.substr(start, at_ - start) != "!") {
        skip_brackets();
        continue;
      }
      if (std::string_view{";|&()<>"}.find(c) != std::string_view::npos) return;
      skip_piece();
    }
  }

  void skip_piece() {
    char const c = text_[at_];
    if (c == '\\') {
      advance(2);
    } else if (c == '\'') {
      advance();
      while (at_ < text_.size() && text_[at_] != '\'') advance();
      advance();
    } else if (c == '"' || c == '`') {
      advance();
      while (at_ < text_.size() && text_[at_] != c) {
        if (c == '"' && text_[at_] == '$') {
          skip_dollar();
        } else if (text_[at_] == '`') {
          // The quotes of a command within quotes are its own.
          skip_piece();
        } else {
          advance(text_[at_] == '\\' ? 2 : 1);
        }
      }
      advance();
    } else if (c == '$') {
      skip_dollar();
    } else {
      advance();
    }
  }

  /// Moves past `$(...)` or `${...}`, in which blanks and operators do not end a word.
  void skip_dollar() {
    advance();
    if (peek(0) == '(' || peek(0) == '{') skip_brackets();
  }

  void skip_brackets() {
    char const open = peek(0);
    char const close = open == '(' ? ')' : '}';
    for (int depth = 0; at_ < text_.size();) {
      if (text_[at_] == open) ++depth;
      if (text_[at_] == close) --depth;
      advance(text_[at_] == '\\' ? 2 : 1);
      if (depth == 0) return;
    }
  }

  std::string_view text_;
  std::vector<std::string>& sbatch_;
  std::vector<ShellToken> tokens_;
  std::vector<std::string> here_documents_;
  std::size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
};

}  // namespace

std::vector<ShellToken> shell_tokens(std::string_view script, std::vector<std::string>& sbatch) {
  return Tokenizer{script, sbatch}.run();
}

}  // namespace stagecraft
