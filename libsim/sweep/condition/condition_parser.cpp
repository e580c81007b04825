#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/sweep/condition/condition.hpp"

namespace stagecraft {

/// A recursive-descent parser with bounded depth, so that no text exhausts the stack. It owns its
/// position in the text and appends to the condition; where it fails, `wanted_` says what it would
/// have accepted there.
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
    return is_truth(*root);
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
  /// The end of a message about a word that may be a misspelt key.
  std::string meant_key(std::string const& word) const {
    return did_you_mean(word, undotted_keys_);
  }
  /// Notes that operands are used as numbers; false if one is a word.
  bool are_numbers(std::size_t left, std::size_t right) {
    for (std::size_t const operand : {left, right}) {
      Condition::Node const& used = condition_.nodes_[operand];
      if (used.kind == Kind::key) condition_.is_number_[used.key] = true;
      if (used.kind == Kind::word) {
        wanted_ = "numbers to compare or calculate with, not '" + printable(used.value.word) + "'" +
                  meant_key(used.value.word);
        return false;
      }
    }
    return true;
  }
  /// Whether an operand can be true or false; a word cannot.
  bool is_truth(std::size_t operand) {
    Condition::Node const& used = condition_.nodes_[operand];
    if (used.kind != Kind::word) return true;
    wanted_ = "a key or a comparison, not the word '" + printable(used.value.word) + "'" +
              meant_key(used.value.word);
    return false;
  }
  /// Notes a word with the key that it is compared with; false if that is not a key.
  bool may_equal(std::size_t left, std::size_t right) {
    for (auto const& [one, other] : {std::pair{left, right}, std::pair{right, left}}) {
      Condition::Node const& word = condition_.nodes_[one];
      Condition::Node const& key = condition_.nodes_[other];
      if (word.kind != Kind::word) continue;
      if (key.kind != Kind::key) {
        std::string const meant = meant_key(word.value.word);
        wanted_ = "a key to compare with the word '" + printable(word.value.word) + "'" +
                  (meant.empty() ? meant_key(key.value.word) : meant);
        return false;
      }
      condition_.words_.push_back({key.key, word.value.word});
    }
    return true;
  }
  bool is_constant(std::size_t operand) const {
    Condition::Node const& node = condition_.nodes_[operand];
    return node.kind != Kind::key && std::all_of(node.operands.begin(), node.operands.end(),
                                                 [&](std::size_t i) { return is_constant(i); });
  }
  /// False if the divisor is 0 for all values of the keys.
  bool may_divide(std::size_t divisor) {
    if (!is_constant(divisor) || condition_.number_of(divisor, {}) != 0) return true;
    wanted_ = "a divisor other than 0";
    return false;
  }

  template <std::size_t count, typename Next>
  Result chain(std::array<Operator, count> const& operators, bool on_numbers, Next next) {
    Result left = next();
    while (left) {
      auto const found = std::find_if(operators.begin(), operators.end(),
                                      [&](Operator const& one) { return take(one.sign); });
      if (found == operators.end()) return left;
      std::size_t const behind_operator = at_;
      Result const right = next();
      if (!right) return std::nullopt;
      if (on_numbers && !are_numbers(*left, *right)) return std::nullopt;
      if (!on_numbers && !(is_truth(*left) && is_truth(*right))) return std::nullopt;
      bool const divides = found->kind == Kind::quotient || found->kind == Kind::remainder;
      if (divides && !may_divide(*right)) {
        at_ = behind_operator;
        return std::nullopt;
      }
      left = add(found->kind, {*left, *right});
    }
    return left;
  }

  Result either() {
    if (++depth_ > 32) {
      wanted_ = "at most 32 nested conditions";
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
    if (!is_truth(*result)) return std::nullopt;
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
      bool const is_sound = has_order ? are_numbers(*left, *right) : may_equal(*left, *right);
      if (!is_sound) return std::nullopt;
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
      if (!may_equal(left, *item)) return std::nullopt;
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

  /// The end of the number that begins here; this position, if none does. `1f1b` is a word.
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

}  // namespace stagecraft
