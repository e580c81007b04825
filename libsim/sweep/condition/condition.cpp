#include "libsim/sweep/condition/condition.hpp"

#include <cmath>
#include <limits>

#include "libsim/units/parse_number.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

ConditionValue condition_value(std::string_view text) {
  if (auto const number = parse_number<double>(text)) return {number, {}};
  // The label of a case may be `8B`.
  if (auto const count = parse_count(text)) return {static_cast<double>(*count), std::string{text}};
  if (text == "yes") return {std::nullopt, "true"};
  if (text == "no") return {std::nullopt, "false"};
  return {std::nullopt, std::string{text}};
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
  if (left.number && right.number) return *left.number == *right.number;
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
  auto const divisor = [&] {
    double const value = number(1);
    if (value == 0) throw DivisionByZero{text_, place_};
    return value;
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
      return number(0) / divisor();
    case Kind::remainder:
      return std::fmod(number(0), divisor());
  }
  return nothing;
}

bool Condition::holds(std::vector<ConditionValue const*> const& values) const {
  double const result = number_of(root_, values);
  return !std::isnan(result) && result != 0;
}

}  // namespace stagecraft
