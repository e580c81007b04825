#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "libsim/config/config_node.hpp"

namespace stagecraft {

/// Whether a key may be left out.
enum class Need : std::uint8_t { optional, required };

/// The change of a switch or of a key of two words that an explanation of a run tries.
struct Tried {
  std::string_view other{};  ///< what is tried in place of the default; empty: nothing is
  std::string_view usual{};  ///< its way back, if that is not "no" and the name of a switch
};

/// A flag of Megatron-LM that says a key.
struct KeyFlag {
  std::string_view name{};           ///< without dashes; empty: no flag says the key alone
  std::string_view in_2022{};        ///< its name up to 2022; empty: there was none
  std::string_view word{};           ///< what a flag without a value says: a word, true or false
  std::optional<double> left_out{};  ///< what a run without it has, if not this program's default
};

/// What a run of Megatron-LM has instead of what a key says.
struct NotInMegatron {
  std::string_view instead{};
  std::string_view word{};  ///< which word of the key, or true or false; empty: all but the default
};

/// What everyone who has to do with a key of a run file knows of it: who reads and prints it, who
/// explains it, who tries others, and who translates it to flags of another program. A section's
/// visit_keys() names each key once, with its field and these:
///
///     keys("dropout", layer.dropout, "The rate of dropout.", Between{0, 1},
///     Flag{"hidden-dropout"});
///
/// The type, the words of an enumeration and the default are those of the field.
struct Key {
  std::string_view name;
  std::string_view meaning{};  ///< a sentence or more; empty if the keys below it say everything
  IntegerRange whole{};        ///< which whole numbers it accepts, or
  NumberRange range{};         ///< which real numbers
  Need need = Need::optional;
  std::string_view accepts{};   ///< if its type does not say it
  std::string_view fallback{};  ///< its default, if the field does not have it
  bool depends = false;         ///< whether its default depends on other keys, as `fallback` says
  Tried change{};
  KeyFlag flag{};
  NotInMegatron gap{};
};

constexpr void add(Key& key, Need need) { key.need = need; }
constexpr void add(Key& key, Tried change) { key.change = change; }
constexpr void add(Key& key, KeyFlag const& flag) { key.flag = flag; }
constexpr void add(Key& key, NotInMegatron gap) { key.gap = gap; }

/// Bounds of a number. A real number is below the second.
template <typename Low, typename High>
struct Between {
  Low low;
  High high;
};
template <typename Low, typename High>
Between(Low, High) -> Between<Low, High>;  // clang 14 does not deduce those of aggregates
template <typename Low, typename High>
constexpr void add(Key& key, Between<Low, High> bounds) {
  if constexpr (std::integral<High>) key.whole = {bounds.low, bounds.high};
  key.range = {static_cast<double>(bounds.low), static_cast<double>(bounds.high)};
}

constexpr void add(Key& key, IntegerRange bounds) { key.whole = bounds; }
constexpr void add(Key& key, NumberRange bounds) { key.range = bounds; }

/// What a key accepts, if its type does not say it.
struct Accepts {
  std::string_view text;
};
constexpr void add(Key& key, Accepts accepts) { key.accepts = accepts.text; }

/// The text of a default that its field does not have.
struct Default {
  std::string_view text;
};
constexpr void add(Key& key, Default fallback) { key.fallback = fallback.text; }

/// What a default is taken from.
struct TakenFrom {
  std::string_view text;
};
constexpr void add(Key& key, TakenFrom other) {
  key.fallback = other.text;
  key.depends = true;
}

/// A flag whose value is that of the key, in all versions or with another name up to 2022.
struct Flag : KeyFlag {
  constexpr Flag(std::string_view now, std::string_view before)
      : KeyFlag{.name = now, .in_2022 = before} {}
  constexpr explicit Flag(std::string_view always) : Flag{always, always} {}
  constexpr Flag(std::string_view always, double without) : Flag{always} { left_out = without; }
};
/// A flag that only the present version has, and that is not written if it says what a run without
/// it has.
struct NewFlag : KeyFlag {
  constexpr NewFlag(std::string_view now, double without)
      : KeyFlag{.name = now, .left_out = without} {}
};
/// A flag of the present version that says a word, true or false.
struct FlagOf : KeyFlag {
  constexpr FlagOf(std::string_view said, std::string_view now)
      : KeyFlag{.name = now, .word = said} {}
};

/// What can be shown the keys of a section: has a member `key(Key, field)`.
template <typename Visitor>
class KeyVisitor {
 public:
  template <typename Field, typename... Parts>
  void operator()(std::string_view name,
                  Field&& field,
                  std::string_view meaning = {},
                  Parts const&... parts) {
    Key key{.name = name, .meaning = meaning};
    (add(key, parts), ...);
    visitor().key(key, field);
  }
  /// A key that nobody explains.
  template <typename Field, typename... Parts>
  void value(std::string_view name, Field&& field, Parts const&... parts) {
    (*this)(name, field, {}, parts...);
  }
  /// A key that is read and written by functions of its own.
  template <typename... Parts>
  void apart(std::string_view name, std::string_view meaning, Parts const&... parts) {
    Key key{.name = name, .meaning = meaning};
    (add(key, parts), ...);
    visitor().key_apart(key);
  }

  void key_apart(Key const& /*key*/) {}
  /// Whether it is shown keys that are used, or printed, only in some cases.
  bool takes(bool is_used) const { return is_used; }
  bool prints(bool /*is_used*/) const { return true; }

 private:
  Visitor& visitor() { return static_cast<Visitor&>(*this); }
};

/// A section, or a value that has keys of its own, which a visitor can be shown.
template <typename Section, typename Visitor>
concept HasKeys = requires(Visitor& visitor, Section& section) {
  visit_keys(visitor, section);
};

/// A type, or its constant form: a section that is read or written.
template <typename Type, typename Section>
concept OneOf = std::same_as<std::remove_const_t<Type>, Section>;

template <typename Field>
struct HeldType {
  using Type = Field;
};
template <typename Held>
struct HeldType<std::optional<Held>> {
  using Type = Held;
};
/// What a field holds if it is not empty.
template <typename Field>
using HeldBy = typename HeldType<std::remove_cvref_t<Field>>::Type;
template <typename Field>
inline constexpr bool is_optional = !std::same_as<std::remove_cvref_t<Field>, HeldBy<Field>>;

}  // namespace stagecraft
