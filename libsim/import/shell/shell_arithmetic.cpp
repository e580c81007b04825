#include "libsim/import/shell/shell_arithmetic.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <system_error>

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
    std::int64_t const value = choice();
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

  /// Takes an operator that is not the beginning of a longer one.
  bool takes_all(std::string_view operation, std::string_view longer = {}) {
    skip_blanks();
    std::string_view const rest = text_.substr(at_);
    if (!rest.starts_with(operation)) return false;
    if (!longer.empty() && rest.size() > operation.size() &&
        longer.find(rest[operation.size()]) != std::string_view::npos) {
      return false;
    }
    at_ += operation.size();
    return true;
  }

  std::int64_t choice() {
    std::int64_t const value = any();
    if (failed_ || !takes('?')) return value;
    if (++depth_ > deepest) return fail();
    std::int64_t const first = choice();
    if (!takes(':')) return fail();
    std::int64_t const second = choice();
    --depth_;
    return value != 0 ? first : second;
  }
  std::int64_t any() {
    std::int64_t value = all();
    while (!failed_ && takes_all("||")) value = (all() != 0) || value != 0 ? 1 : 0;
    return value;
  }
  std::int64_t all() {
    std::int64_t value = equality();
    while (!failed_ && takes_all("&&")) value = (equality() != 0) && value != 0 ? 1 : 0;
    return value;
  }
  std::int64_t equality() {
    std::int64_t value = order();
    while (!failed_) {
      if (takes_all("==")) {
        value = order() == value ? 1 : 0;
      } else if (takes_all("!=")) {
        value = order() != value ? 1 : 0;
      } else {
        break;
      }
    }
    return value;
  }
  std::int64_t order() {
    std::int64_t value = sum();
    while (!failed_) {
      if (takes_all("<=")) {
        value = sum() >= value ? 1 : 0;
      } else if (takes_all(">=")) {
        value = sum() <= value ? 1 : 0;
      } else if (takes_all("<", "<")) {
        value = sum() > value ? 1 : 0;
      } else if (takes_all(">", ">")) {
        value = sum() < value ? 1 : 0;
      } else {
        break;
      }
    }
    return value;
  }

  std::int64_t sum() {
    std::int64_t value = product();
    while (!failed_) {
      char const operation = takes('+') ? '+' : takes('-') ? '-' : '\0';
      if (operation == '\0') break;
      if (at_ < text_.size() && text_[at_] == operation) return fail();  // `N++`
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
      value = choice();
      if (!takes(')')) fail();
    } else if (takes('-')) {
      if (at_ < text_.size() && text_[at_] == '-') fail();  // `--N`
      apply(value, '-', factor());
    } else if (takes('+')) {
      if (at_ < text_.size() && text_[at_] == '+') fail();
      value = factor();
    } else if (takes_all("!", "=")) {
      value = factor() == 0 ? 1 : 0;
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
  /// Digits; those after a 0 are octal, after 0x hexadecimal, after `BASE#` of that base.
  std::int64_t number(std::string_view word) {
    int base = 10;
    if (at_ < text_.size() && text_[at_] == '#') {
      base = parse_number<int>(word).value_or(0);
      std::size_t const start = ++at_;
      while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
      word = text_.substr(start, at_ - start);
      if (base < 2 || base > 36) return fail();
    } else if (word.starts_with("0x") || word.starts_with("0X")) {
      base = 16;
      word.remove_prefix(2);
    } else if (word.size() > 1 && word.front() == '0') {
      base = 8;
    }
    std::int64_t value = 0;
    auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
    return error == std::errc{} && end == word.data() + word.size() ? value : fail();
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

std::optional<ShellStep> shell_step(std::string_view expression, ShellVariables const& variables) {
  constexpr std::string_view blanks = " \t\n";
  constexpr std::string_view operators = "+-*/%";
  auto const skip = [&](std::size_t at) {
    return std::min(expression.find_first_not_of(blanks, at), expression.size());
  };
  std::size_t start = skip(0);
  std::string_view const sign = expression.substr(start, 2);
  bool const is_prefix = sign == "++" || sign == "--";
  if (is_prefix) start = skip(start + 2);
  std::size_t end = start;
  while (end < expression.size() && is_name_character(expression[end])) ++end;
  ShellStep step;
  step.name = expression.substr(start, end - start);
  if (step.name.empty() || std::isdigit(static_cast<unsigned char>(step.name[0])) != 0) return {};
  std::string_view rest = expression.substr(skip(end));
  if (!rest.empty()) rest = rest.substr(0, rest.find_last_not_of(blanks) + 1);
  // A variable that is not set counts as 0.
  std::string const now = variables.contains(step.name) ? step.name : "0";
  bool const is_suffix = !is_prefix && (rest == "++" || rest == "--");
  std::string value;
  if (is_prefix && rest.empty()) value = now + sign[0] + "1";
  if (is_suffix) value = now + rest[0] + "1";
  if (!is_prefix && rest.starts_with('=') && !rest.starts_with("==")) value = rest.substr(1);
  if (!is_prefix && rest.size() > 1 && rest[1] == '=' &&
      operators.find(rest[0]) != std::string_view::npos) {
    value = now + rest[0] + "(" + std::string{rest.substr(2)} + ")";
  }
  if (value.empty()) return {};
  step.value = shell_arithmetic(value, variables);
  step.result = step.value;
  if (step.value && is_suffix) *step.result -= rest[0] == '+' ? 1 : -1;
  return step;
}

std::vector<std::string> names_set_in(std::string_view expression) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < expression.size();) {
    std::size_t const start = i;
    while (i < expression.size() && is_name_character(expression[i])) ++i;
    if (i == start) {
      ++i;
      continue;
    }
    std::size_t const next = std::min(expression.find_first_not_of(" \t\n", i), expression.size());
    std::string_view rest = expression.substr(next);
    std::size_t const last =
        start == 0 ? std::string_view::npos : expression.find_last_not_of(" \t\n", start - 1);
    std::string_view const before = last == std::string_view::npos || last == 0
                                        ? std::string_view{}
                                        : expression.substr(last - 1, 2);
    bool sets =
        rest.starts_with("++") || rest.starts_with("--") || before == "++" || before == "--";
    if (!rest.empty() && std::string_view{"+-*/%&|^"}.find(rest[0]) != std::string_view::npos) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("<<") || rest.starts_with(">>")) {
      rest.remove_prefix(2);
    }
    sets = sets || (rest.starts_with('=') && !rest.starts_with("=="));
    if (sets) names.emplace_back(expression.substr(start, i - start));
  }
  return names;
}

}  // namespace stagecraft
