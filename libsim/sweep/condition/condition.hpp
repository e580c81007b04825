#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// The value of a key of a point in a condition: a number, or a word.
struct ConditionValue {
  std::optional<double> number;
  std::string word;  ///< if it is not a number; "" is not equal to any word
};

/// A text as a number or else as a word; `yes` and `no` are `true` and `false`, as in
/// configurations.
ConditionValue condition_value(std::string_view text);

/// Thrown if a condition divides by 0 at a point. what() is the text of the condition.
class DivisionByZero : public std::runtime_error {
 public:
  DivisionByZero(std::string const& condition, Place place)
      : std::runtime_error{condition}, place_{std::move(place)} {}
  Place const& place() const { return place_; }

 private:
  Place place_;
};

/// A condition on the keys of a point, such as
/// `parallel.tensor * parallel.pipeline <= 64 and recompute != full`.
///
///     condition  := all ("or" all)*
///     all        := part ("and" part)*
///     part       := "not" part | sum (comparison sum)? | sum "in" "[" sum ("," sum)* "]"
///     comparison := "==" | "!=" | "<" | "<=" | ">" | ">="
///     sum        := product (("+" | "-") product)*
///     product    := factor (("*" | "/" | "%") factor)*
///     factor     := NUMBER | NAME | "'" WORD "'" | "(" condition ")"
///
/// A NAME with a dot and one of `undotted_keys` is a key; any other is a word. Numbers are doubles;
/// comparisons and logic give 1 or 0. A number is never equal to a word, and words have no order:
/// if a key that is used as a number has a word, the result is not a number, for which every
/// comparison except != is false.
class Condition {
 public:
  /// A word that a key is compared with.
  struct WordUse {
    std::size_t key = 0;  ///< into keys()
    std::string word;
  };

  /// Parses a condition. Returns nullopt if the text is not a condition, if it has words in places
  /// of keys, or if a divisor is always 0; `diagnostics` then says why.
  static std::optional<Condition> parse(std::string_view text,
                                        Place const& place,
                                        std::vector<std::string> const& undotted_keys,
                                        Diagnostics& diagnostics);

  std::string const& text() const { return text_; }
  Place const& place() const { return place_; }
  /// Its keys, each once.
  std::vector<std::string> const& keys() const { return keys_; }
  /// Which of keys() are used as numbers (in an order comparison, or a calculation).
  std::vector<bool> const& is_number() const { return is_number_; }

  std::vector<WordUse> const& words() const { return words_; }

  /// Whether the condition holds for the `values` of keys(), in their order. `and` and `or`
  /// evaluate their right operand only if it matters.
  /// \throws DivisionByZero
  bool holds(std::vector<ConditionValue const*> const& values) const;

 private:
  friend class ConditionParser;

  enum class Kind : std::uint8_t {
    number,
    word,
    key,
    either,
    both,
    negation,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    in,
    sum,
    difference,
    product,
    quotient,
    remainder
  };
  struct Node {
    Kind kind = Kind::number;
    ConditionValue value;               ///< number, word
    std::size_t key = 0;                ///< key
    std::vector<std::size_t> operands;  ///< into nodes_
  };

  ConditionValue const& value_of(Node const& node,
                                 std::vector<ConditionValue const*> const& values,
                                 ConditionValue& computed) const;
  double number_of(std::size_t node, std::vector<ConditionValue const*> const& values) const;
  bool are_equal(std::size_t a,
                 std::size_t b,
                 std::vector<ConditionValue const*> const& values) const;

  std::string text_;
  Place place_;
  std::vector<std::string> keys_;
  std::vector<bool> is_number_;
  std::vector<WordUse> words_;
  std::vector<Node> nodes_;
  std::size_t root_ = 0;
};

}  // namespace stagecraft
