#include "libsim/sweep/condition.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace stagecraft {

/// Recursive descent; depth is bounded, so that no text exhausts the stack.
class ConditionParser {
 public:
  using Kind = Condition::Kind;

  ConditionParser(Condition& condition, std::vector<std::string> const& undotted_keys)
      : condition_{condition}, undotted_keys_{undotted_keys}, text_{condition.text_} {}

  bool parse() {
    auto const root = either();
    if (!root) return false;
    skip_spaces();
    if (at_ != text_.size()) {
      wanted_ = "an operator (and or == != < <= > >= in + - * / %) or the end";
      return false;
    }
    condition_.root_ = *root;
    return true;
  }

  std::size_t position() const { return at_; }
  std::string const& wanted() const { return wanted_; }
  std::string found() const {
    if (at_ >= text_.size()) return "its end";
    return "'" + printable(text_.substr(at_, 20)) + "'";
  }

 private:
  using Result = std::optional<std::size_t>;

  struct Operator {
    std::string_view sign;
    Kind kind;
  };

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }

  bool take(std::string_view sign) {
    skip_spaces();
    if (text_.substr(at_, sign.size()) != sign) return false;
    std::size_t const end = at_ + sign.size();
    bool const is_word = is_name(sign.front());
    if (is_word && end < text_.size() && is_name(text_[end])) return false;
    at_ = end;
    return true;
  }

  std::size_t add(Kind kind, std::vector<std::size_t> operands) {
    condition_.nodes_.push_back({kind, {}, 0, std::move(operands)});
    return condition_.nodes_.size() - 1;
  }
  std::size_t add(Condition::Node node) {
    condition_.nodes_.push_back(std::move(node));
    return condition_.nodes_.size() - 1;
  }
  /// Notes that operands are used as numbers; false where one is a word.
  bool are_numbers(std::size_t left, std::size_t right) {
    for (std::size_t const operand : {left, right}) {
      Condition::Node const& used = condition_.nodes_[operand];
      if (used.kind == Kind::key) condition_.is_number_[used.key] = true;
      if (used.kind == Kind::word) {
        wanted_ = "numbers to compare or calculate with, not '" + printable(used.value.word) + "'";
        return false;
      }
    }
    return true;
  }

  template <std::size_t count, typename Next>
  Result chain(std::array<Operator, count> const& operators, bool on_numbers, Next next) {
    Result left = next();
    while (left) {
      auto const found = std::find_if(operators.begin(), operators.end(),
                                      [&](Operator const& one) { return take(one.sign); });
      if (found == operators.end()) return left;
      Result const right = next();
      if (!right) return std::nullopt;
      if (on_numbers && !are_numbers(*left, *right)) return std::nullopt;
      left = add(found->kind, {*left, *right});
    }
    return left;
  }

  Result either() {
    if (++depth_ > 32) {
      wanted_ = "at most 32 conditions in each other";
      return std::nullopt;
    }
    Result const result = chain(std::array{Operator{"or", Kind::either}}, false, [&] {
      return chain(std::array{Operator{"and", Kind::both}}, false, [&] { return part(); });
    });
    --depth_;
    return result;
  }

  Result part() {
    bool is_negated = false;
    while (take("not")) is_negated = !is_negated;
    Result const result = comparison();
    if (!result || !is_negated) return result;
    return add(Kind::negation, {*result});
  }

  Result comparison() {
    Result const left = sum();
    if (!left) return left;
    if (take("in")) return membership(*left);
    constexpr std::array<Operator, 6> signs{{{"==", Kind::equal},
                                             {"!=", Kind::unequal},
                                             {"<=", Kind::less_equal},
                                             {">=", Kind::greater_equal},
                                             {"<", Kind::less},
                                             {">", Kind::greater}}};
    for (Operator const& one : signs) {
      if (!take(one.sign)) continue;
      Result const right = sum();
      if (!right) return right;
      bool const has_order = one.kind != Kind::equal && one.kind != Kind::unequal;
      if (has_order && !are_numbers(*left, *right)) return std::nullopt;
      return add(one.kind, {*left, *right});
    }
    return left;
  }

  Result membership(std::size_t left) {
    std::vector<std::size_t> operands{left};
    if (!take("[")) {
      wanted_ = "a list in brackets";
      return std::nullopt;
    }
    do {
      Result const item = sum();
      if (!item) return item;
      operands.push_back(*item);
    } while (take(","));
    if (!take("]")) {
      wanted_ = "',' or ']'";
      return std::nullopt;
    }
    return add(Kind::in, std::move(operands));
  }

  Result sum() {
    return chain(std::array{Operator{"+", Kind::sum}, Operator{"-", Kind::difference}}, true, [&] {
      return chain(std::array{Operator{"*", Kind::product}, Operator{"/", Kind::quotient},
                              Operator{"%", Kind::remainder}},
                   true, [&] { return factor(); });
    });
  }

  Result factor() {
    skip_spaces();
    if (take("(")) {
      Result const inner = either();
      if (!inner) return inner;
      if (take(")")) return inner;
      wanted_ = "')'";
      return std::nullopt;
    }
    if (take("'")) return quoted();
    return name();
  }

  Result quoted() {
    std::size_t const end = text_.find('\'', at_);
    if (end == std::string_view::npos) {
      wanted_ = "a word and its closing '";
      at_ = text_.size();
      return std::nullopt;
    }
    Condition::Node node{
        Kind::word, {std::nullopt, std::string{text_.substr(at_, end - at_)}}, 0, {}};
    at_ = end + 1;
    return add(std::move(node));
  }

  /// Where the number that begins here ends; here, where none does. `1f1b` is a word.
  std::size_t number_end() const {
    double number = 0;
    char const* const last = text_.data() + text_.size();
    auto const [end, error] = std::from_chars(text_.data() + at_, last, number);
    bool const is_number = error == std::errc{} && std::isfinite(number);
    return is_number && (end == last || !is_name(*end))
               ? static_cast<std::size_t>(end - text_.data())
               : at_;
  }

  Result name() {
    std::size_t end = number_end();
    while (end < text_.size() && is_name(text_[end])) ++end;
    std::string_view const word = text_.substr(at_, end - at_);
    bool const is_operator = word == "and" || word == "or" || word == "not" || word == "in";
    if (word.empty() || is_operator) {
      wanted_ = "a number, a key, a word or '('";
      return std::nullopt;
    }
    ConditionValue value = condition_value(word);
    at_ = end;
    if (value.number) return add({Kind::number, std::move(value), 0, {}});
    bool const is_key =
        word.find('.') != std::string_view::npos ||
        std::find(undotted_keys_.begin(), undotted_keys_.end(), word) != undotted_keys_.end();
    if (!is_key) return add({Kind::word, std::move(value), 0, {}});
    std::vector<std::string>& keys = condition_.keys_;
    auto const known = std::find(keys.begin(), keys.end(), word);
    auto const key = static_cast<std::size_t>(known - keys.begin());
    if (known == keys.end()) {
      keys.emplace_back(word);
      condition_.is_number_.push_back(false);
    }
    return add({Kind::key, {}, key, {}});
  }

  Condition& condition_;
  std::vector<std::string> const& undotted_keys_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string wanted_;
};

ConditionValue condition_value(std::string_view text) {
  double number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const is_number =
      error == std::errc{} && end == text.data() + text.size() && std::isfinite(number);
  if (is_number) return {number, {}};
  if (text == "yes") return {std::nullopt, "true"};
  if (text == "no") return {std::nullopt, "false"};
  return {std::nullopt, std::string{text}};
}

std::optional<Condition> Condition::parse(std::string_view text,
                                          Place const& place,
                                          std::vector<std::string> const& undotted_keys,
                                          Diagnostics& diagnostics) {
  Condition condition;
  condition.text_ = text;
  condition.place_ = place;
  ConditionParser parser{condition, undotted_keys};
  if (parser.parse()) return condition;
  diagnostics.add({place, "where",
                   parser.found() + " after " + std::to_string(parser.position()) +
                       " characters of '" + printable(text) + "'",
                   parser.wanted()});
  return std::nullopt;
}

ConditionValue const& Condition::value_of(Node const& node,
                                          std::vector<ConditionValue const*> const& values,
                                          ConditionValue& computed) const {
  if (node.kind == Kind::key) return *values[node.key];
  if (node.kind == Kind::number || node.kind == Kind::word) return node.value;
  computed.number = number_of(static_cast<std::size_t>(&node - nodes_.data()), values);
  return computed;
}

bool Condition::are_equal(std::size_t a,
                          std::size_t b,
                          std::vector<ConditionValue const*> const& values) const {
  ConditionValue computed_a;
  ConditionValue computed_b;
  ConditionValue const& left = value_of(nodes_[a], values, computed_a);
  ConditionValue const& right = value_of(nodes_[b], values, computed_b);
  if (left.number || right.number) {
    return left.number && right.number && *left.number == *right.number;
  }
  return !left.word.empty() && left.word == right.word;
}

double Condition::number_of(std::size_t index,
                            std::vector<ConditionValue const*> const& values) const {
  Node const& node = nodes_[index];
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  auto const number = [&](std::size_t i) { return number_of(node.operands[i], values); };
  auto const is_true = [&](std::size_t i) {
    double const value = number(i);
    return !std::isnan(value) && value != 0;
  };
  switch (node.kind) {
    case Kind::number:
    case Kind::word:
      return node.value.number.value_or(nothing);
    case Kind::key:
      if (values[node.key]->word == "true") return 1;
      if (values[node.key]->word == "false") return 0;
      return values[node.key]->number.value_or(nothing);
    case Kind::either:
      return is_true(0) || is_true(1) ? 1 : 0;
    case Kind::both:
      return is_true(0) && is_true(1) ? 1 : 0;
    case Kind::negation:
      return is_true(0) ? 0 : 1;
    case Kind::equal:
      return are_equal(node.operands[0], node.operands[1], values) ? 1 : 0;
    case Kind::unequal:
      return are_equal(node.operands[0], node.operands[1], values) ? 0 : 1;
    case Kind::less:
      return number(0) < number(1) ? 1 : 0;
    case Kind::less_equal:
      return number(0) <= number(1) ? 1 : 0;
    case Kind::greater:
      return number(0) > number(1) ? 1 : 0;
    case Kind::greater_equal:
      return number(0) >= number(1) ? 1 : 0;
    case Kind::in:
      for (std::size_t i = 1; i < node.operands.size(); ++i) {
        if (are_equal(node.operands[0], node.operands[i], values)) return 1;
      }
      return 0;
    case Kind::sum:
      return number(0) + number(1);
    case Kind::difference:
      return number(0) - number(1);
    case Kind::product:
      return number(0) * number(1);
    case Kind::quotient:
      return number(1) == 0 ? nothing : number(0) / number(1);
    case Kind::remainder:
      return std::fmod(number(0), number(1));
  }
  return nothing;
}

bool Condition::holds(std::vector<ConditionValue const*> const& values) const {
  double const result = number_of(root_, values);
  return !std::isnan(result) && result != 0;
}

}  // namespace stagecraft
