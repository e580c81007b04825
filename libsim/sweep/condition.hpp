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

/// What a key of a point is worth in a condition: a number, or a word.
struct ConditionValue {
  std::optional<double> number;
  std::string word;  ///< where it is no number; "" is equal to no word
};

/// A number, or else a word; `yes` and `no` are `true` and `false`, as in any configuration.
ConditionValue condition_value(std::string_view text);

/// A condition divides by what is 0 at this point. what() is the condition's text.
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
/// A NAME with a dot is a key, one of `undotted_keys` too; any other is a word. Numbers are
/// doubles; comparisons and logic give 1 or 0. A number is never equal to a word; a word has no
/// order, and where a key is one that is used as a number the result is not a number, of which
/// every comparison but != is false.
class Condition {
 public:
  /// A word that a key is compared with.
  struct WordUse {
    std::size_t key = 0;  ///< into keys()
    std::string word;
  };

  /// Parses. Nothing comes back where the text is no condition, and where words are what must be
  /// keys or a divisor is always 0; `diagnostics` then says why.
  static std::optional<Condition> parse(std::string_view text,
                                        Place const& place,
                                        std::vector<std::string> const& undotted_keys,
                                        Diagnostics& diagnostics);

  std::string const& text() const { return text_; }
  Place const& place() const { return place_; }
  /// Its keys, each once.
  std::vector<std::string> const& keys() const { return keys_; }
  /// Of keys(): those that are used as numbers (ordered, or calculated with).
  std::vector<bool> const& is_number() const { return is_number_; }

  std::vector<WordUse> const& words() const { return words_; }

  /// Whether it holds. `values`: of keys(), in their order. `and` and `or` look at what stands to
  /// their right only where that matters.
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
