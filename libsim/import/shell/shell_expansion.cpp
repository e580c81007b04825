#include "libsim/import/shell/shell_expansion.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "libsim/import/shell/shell_arithmetic.hpp"
#include "libsim/import/shell/shell_brackets.hpp"
#include "libsim/import/shell/shell_output.hpp"
#include "libsim/import/shell/shell_parameters.hpp"
#include "libsim/import/shell/shell_pattern.hpp"

namespace stagecraft {
namespace {

/// What an expander does beside expanding.
struct ExpanderMode {
  int depth = 0;                       ///< of defaults within defaults
  ShellVariables* settable = nullptr;  ///< in which `${NAME:=TEXT}` sets its variable
  bool is_pattern = false;             ///< what is quoted is escaped
  bool is_one_word = false;            ///< what is not quoted is not split
};

/// Expands one word of a command; used once.
///
/// Views the word and the variables of its caller. Between two steps all before `at_` is expanded:
/// into the finished `words_`, and into `current_`, which is a word only if `has_word_` (an empty
/// pair of quotes is one, an unset variable is not).
class Expander {
 public:
  Expander(ShellWord const& written, ShellVariables const& variables, ExpanderMode const& mode)
      : text_{written.text}, place_{written}, variables_{variables}, mode_{mode} {}

  std::vector<ShellWord> run() {
    while (at_ < text_.size()) {
      char const c = text_[at_];
      if (c == '\'') {
        std::size_t const end = std::min(text_.find('\'', at_ + 1), text_.size());
        put_quoted(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
      } else if (c == '"') {
        read_quoted();
      } else if (c == '\\') {
        if (peek(1) != '\n') put_quoted(text_.substr(at_ + 1, 1));
        at_ += 2;
      } else if (c == '$' || c == '`') {
        expand_dollar(Quoting::none);
      } else {
        put(text_.substr(at_, 1));
        ++at_;
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  enum class Quoting { none, quoted };
  static constexpr int deepest_ = 32;  ///< defaults within defaults
  static constexpr std::size_t longest_ = std::size_t{256}
                                          << 10;  ///< a script must not double its text forever

  char peek(std::size_t ahead) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void put(std::string_view piece) {
    has_word_ = true;
    length_ += piece.size();
    if (length_ <= longest_) current_ += piece;
  }
  void put_quoted(std::string_view piece) {
    if (mode_.is_pattern) {
      put(as_pattern(piece));
    } else {
      put(piece);
    }
  }
  void end_word() {
    if (has_word_) words_.push_back({current_, word_place_.line, word_place_.column});
    current_.clear();
    has_word_ = false;
    word_place_ = place_;
  }

  void read_quoted() {
    bool const had_word = std::exchange(has_word_, true);
    std::size_t const count = words_.size();
    is_empty_list_ = false;
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      if (text_[at_] == '$' || text_[at_] == '`') {
        expand_dollar(Quoting::quoted);
      } else if (text_[at_] == '\\' &&
                 std::string_view{"\"\\$`\n"}.find(peek(1)) != std::string_view::npos) {
        if (peek(1) != '\n') put_quoted(text_.substr(at_ + 1, 1));
        at_ += 2;
      } else {
        put_quoted(text_.substr(at_, 1));
        ++at_;
      }
    }
    ++at_;
    // "${A[@]}" of an empty array expands to no word at all.
    if (is_empty_list_ && current_.empty() && words_.size() == count) has_word_ = had_word;
  }

  /// Inserts the elements of a variable; `each` keeps them separate, as "${a[@]}" does.
  void put_value(std::vector<ShellWord> const& elements, Quoting quoting, bool each) {
    if (quoting == Quoting::quoted && !each) {
      put_quoted(joined(elements, value_separators().substr(0, 1)));
      return;
    }
    if (quoting == Quoting::none && mode_.is_one_word) {
      if (!elements.empty()) put(joined(elements));
      return;
    }
    if (elements.empty()) is_empty_list_ = true;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) end_word();
      if (elements[i].line > 0) word_place_ = elements[i];
      if (quoting == Quoting::quoted) {
        put_quoted(elements[i].text);
        continue;
      }
      std::string_view const text = elements[i].text;
      std::string const separators = value_separators();
      for (std::size_t k = 0; k < text.size(); ++k) {
        char const c = text[k];
        // What could not be expanded is one word, whatever blanks are in it.
        if (std::size_t const end = end_of_substitution(text, k); end > k) {
          put(text.substr(k, end - k));
          k = end - 1;
        } else if (separators.find(c) == std::string::npos) {
          put({&c, 1});
        } else if (has_word_ || (!is_blank(c) && c != '\n' && !ends_with_word(text, k))) {
          has_word_ = true;
          end_word();
          if (elements[i].line > 0) word_place_ = elements[i];
        }
      }
    }
  }

  /// The characters that separate the words of a value: IFS, if the script sets it.
  std::string value_separators() const {
    auto const known = variables_.find("IFS");
    if (known == variables_.end() || known->second.elements.empty()) return " \t\n\r";
    return joined(known->second.elements);
  }
  /// Whether a separator at `at` stands behind blanks that have ended its word.
  bool ends_with_word(std::string_view text, std::size_t at) const {
    std::string const separators = value_separators();
    std::size_t k = at;
    while (k > 0 && is_blank(text[k - 1]) && separators.find(text[k - 1]) != std::string::npos) --k;
    return k > 0 && k < at && separators.find(text[k - 1]) == std::string::npos;
  }

  /// Inserts what `seq` prints; false for other commands.
  bool put_output(std::string_view command, Quoting quoting) {
    constexpr std::string_view name = "seq ";
    command.remove_prefix(std::min(command.find_first_not_of(" \t"), command.size()));
    if (!command.starts_with(name) || mode_.depth == deepest_) return false;
    ShellWord const rest{std::string{command.substr(name.size())}, 0, 0};
    auto const output = output_of_seq(
        joined(Expander{rest, variables_, {mode_.depth + 1, mode_.settable, false}}.run()));
    if (!output) return false;
    ShellWord text = place_;
    text.text = *output;
    if (!output->empty()) put_value({text}, quoting, false);
    return true;
  }

  /// Expands `${inner}`.
  bool expand_braces(std::string_view inner, Quoting quoting) {
    auto const written = [&](std::string_view text,
                             bool is_pattern) -> std::optional<std::vector<ShellWord>> {
      if (mode_.depth == deepest_) return std::nullopt;
      ShellWord const word{std::string{text}, 0, 0};
      return Expander{word, variables_, {mode_.depth + 1, mode_.settable, is_pattern}}.run();
    };
    auto const value = braced_value(inner, variables_, mode_.settable, written);
    if (value) put_value(value->elements, quoting, value->each);
    return value.has_value();
  }

  /// Inserts the value of an expression, in which variables are expanded first.
  bool put_arithmetic(std::string_view expression) {
    if (mode_.depth == deepest_) return false;
    ShellWord const word{std::string{expression}, 0, 0};
    auto const expanded =
        Expander{word, variables_, {mode_.depth + 1, mode_.settable, false}}.run();
    std::string const text = joined(expanded);
    auto const step = shell_step(text, variables_);
    auto const value = step ? step->result : shell_arithmetic(text, variables_);
    if (step && step->value && mode_.settable != nullptr) {
      (*mode_.settable)[step->name] = {{{std::to_string(*step->value), 0, 0}}};
    } else if (!value && mode_.settable != nullptr) {
      for (std::string const& name : names_set_in(text)) mode_.settable->erase(name);
    }
    if (value) put(std::to_string(*value));
    return value.has_value();
  }

  /// Inserts the text of `$'...'` from `at` on; returns the position behind it.
  std::size_t put_escaped(std::size_t at) {
    constexpr std::string_view letters = "ntr\\'\"";
    constexpr std::string_view meanings = "\n\t\r\\'\"";
    put_quoted("");
    for (; at < text_.size() && text_[at] != '\''; ++at) {
      bool const is_escape = text_[at] == '\\' && at + 1 < text_.size();
      std::size_t const letter = is_escape ? letters.find(text_[at + 1]) : std::string_view::npos;
      if (letter != std::string_view::npos) {
        put_quoted(meanings.substr(letter, 1));
        ++at;
      } else {
        put_quoted(text_.substr(at, 1));
      }
    }
    return at + 1;
  }

  /// Expands what begins with `$` or a backquote. What cannot be expanded is left as it is written.
  void expand_dollar(Quoting quoting) {
    std::size_t const start = at_;
    std::size_t end = start + 1;
    bool is_done = false;
    if (text_[start] == '`') {
      end = std::min(text_.find('`', start + 1), text_.size() - 1) + 1;
      std::size_t const first = text_.find_first_not_of(" \t", start + 1);
      is_done = first < end && text_[first] == '#';  // a comment among the words of a command
      is_done = is_done || put_output(text_.substr(start + 1, end - start - 2), quoting);
    } else if (peek(1) == '(' || peek(1) == '{') {
      end = closing_bracket(text_, start + 1);
      std::string_view const inner = text_.substr(start + 2, end - start - 3);
      if (peek(1) == '{') {
        is_done = expand_braces(inner, quoting);
      } else if (inner.size() > 2 && inner.front() == '(' && inner.back() == ')') {
        is_done = put_arithmetic(inner.substr(1, inner.size() - 2));
      } else {
        is_done = put_output(inner, quoting);
      }
    } else if (peek(1) == '#') {
      end = start + 2;
      auto const arguments = variables_.find("@");
      bool const are_known = arguments != variables_.end();
      is_done = !variables_.contains("#");  // else their number is not known
      if (is_done) put(are_known ? std::to_string(arguments->second.elements.size()) : "0");
    } else if (peek(1) == '@' || peek(1) == '*') {
      end = start + 2;
      auto const arguments = variables_.find("@");
      if (arguments != variables_.end())
        put_value(arguments->second.elements, quoting, peek(1) == '@');
      is_done = true;  // without --script's arguments as if it had been started without any
    } else if (peek(1) == '\'' && quoting == Quoting::none) {
      end = put_escaped(start + 2);
      is_done = true;
    } else if (is_name_character(peek(1))) {
      end = start + 2;
      bool const is_digit = std::isdigit(static_cast<unsigned char>(peek(1))) != 0;
      while (!is_digit && end < text_.size() && is_name_character(text_[end])) ++end;
      is_done = expand_braces(text_.substr(start + 1, end - start - 1), quoting);
    }
    if (!is_done) put(text_.substr(start, end - start));
    at_ = end;
  }

  std::string_view text_;
  ShellWord const& place_;
  ShellVariables const& variables_;
  std::vector<ShellWord> words_;
  ShellWord word_place_ = place_;
  std::string current_;
  bool has_word_ = false;
  bool is_empty_list_ = false;  ///< in the quotes that are read is a list without elements
  ExpanderMode mode_;
  std::size_t length_ = 0;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<ShellWord> expand(ShellWord const& written, ShellVariables const& variables) {
  return Expander{written, variables, {}}.run();
}

std::vector<ShellWord> expand_and_set(ShellWord const& written, ShellVariables& variables) {
  return Expander{written, variables, {0, &variables, false}}.run();
}

std::string expand_value(ShellWord const& written, ShellVariables& variables) {
  return joined(Expander{written, variables, {0, &variables, false, true}}.run());
}

std::string expand_pattern(ShellWord const& written, ShellVariables const& variables) {
  return joined(Expander{written, variables, {0, nullptr, true, true}}.run());
}

}  // namespace stagecraft
