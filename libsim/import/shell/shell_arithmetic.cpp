#include "libsim/import/shell/shell_arithmetic.hpp"

#include <cctype>
#include <string>

#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// A recursive-descent parser: a sum of products of powers of factors. One failure makes all of it
/// fail.
class Calculator {
 public:
  Calculator(std::string_view text, ShellVariables const& variables, int depth)
      : text_{text}, variables_{variables}, depth_{depth} {}

  std::optional<std::int64_t> run() {
    std::int64_t const value = sum();
    skip_blanks();
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  static constexpr int deepest = 32;
  using Operation = bool (*)(std::int64_t, std::int64_t, std::int64_t*);

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool takes(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// Overflow, which is undefined in the shell, is a failure.
  void apply(std::int64_t& left, char operation, std::int64_t right) {
    bool bad = false;
    if (operation == '+') bad = __builtin_add_overflow(left, right, &left);
    if (operation == '-') bad = __builtin_sub_overflow(left, right, &left);
    if (operation == '*') bad = __builtin_mul_overflow(left, right, &left);
    if (operation == '/' || operation == '%') {
      bad = right == 0 || right == -1;
      if (!bad) left = operation == '/' ? left / right : left % right;
    }
    if (bad) failed_ = true;
  }

  std::int64_t sum() {
    std::int64_t value = product();
    while (!failed_) {
      char const operation = takes('+') ? '+' : takes('-') ? '-' : '\0';
      if (operation == '\0') break;
      apply(value, operation, product());
    }
    return value;
  }
  std::int64_t product() {
    std::int64_t value = power();
    while (!failed_) {
      char const operation = takes('*') ? '*' : takes('/') ? '/' : takes('%') ? '%' : '\0';
      if (operation == '\0') break;
      apply(value, operation, power());
    }
    return value;
  }
  /// `a ** b` groups to the right; a sign belongs to the base, as in the shell.
  std::int64_t power() {
    std::int64_t const base = factor();
    skip_blanks();
    if (text_.substr(at_).rfind("**", 0) != 0) return base;
    at_ += 2;
    if (++depth_ > deepest) return fail();
    std::int64_t const exponent = power();
    --depth_;
    if (exponent < 0 || exponent > 62) return fail();
    std::int64_t value = 1;
    for (std::int64_t i = 0; i < exponent && !failed_; ++i) apply(value, '*', base);
    return value;
  }
  std::int64_t factor() {
    if (++depth_ > deepest) return fail();
    std::int64_t value = 0;
    if (takes('(')) {
      value = sum();
      if (!takes(')')) fail();
    } else if (takes('-')) {
      apply(value, '-', factor());
    } else {
      value = term();
    }
    --depth_;
    return value;
  }
  std::int64_t term() {
    skip_blanks();
    bool const has_braces = text_.substr(at_).rfind("${", 0) == 0;
    at_ += has_braces ? 2 : (at_ < text_.size() && text_[at_] == '$' ? 1 : 0);
    std::size_t const start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    std::string_view const word = text_.substr(start, at_ - start);
    if (has_braces && !takes('}')) return fail();
    if (word.empty()) return fail();
    if (std::isdigit(static_cast<unsigned char>(word.front())) != 0) return number(word);
    auto const variable = variables_.find(word);
    if (variable == variables_.end() || variable->second.elements.size() != 1) return fail();
    auto const value = Calculator{variable->second.elements[0].text, variables_, depth_}.run();
    return value ? *value : fail();
  }
  std::int64_t number(std::string_view word) {
    auto const value = parse_number<std::int64_t>(word);
    return value ? *value : fail();
  }
  std::int64_t fail() {
    failed_ = true;
    return 0;
  }

  std::string_view text_;
  ShellVariables const& variables_;
  int depth_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                             ShellVariables const& variables) {
  return Calculator{expression, variables, 0}.run();
}

}  // namespace stagecraft
