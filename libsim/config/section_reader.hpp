#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/key.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Reads the keys of one map into a struct, as the struct's visit_keys() names them, and reports
/// unknown keys. A key that is left out, or that cannot be read, leaves its field unchanged: the
/// struct's own initialisers are the defaults. SectionWriter is the inverse.
class SectionReader : public KeyVisitor<SectionReader> {
 public:
  /// A section that does not exist reads like an empty one.
  explicit SectionReader(ConfigNode section);

  /// The value of `key`, which from then on counts as known.
  ConfigNode take(std::string_view key);

  void key_apart(Key const& key) { take(key.name); }

  /// Reads a key by the type of its field. A section that is a map has keys of its own; what else is
  /// not a single value has a function read_field().
  template <typename Field>
  void key(Key const& key, Field&& field) {
    using Held = HeldBy<Field>;
    ConfigNode const node = take(key.name);
    if constexpr (requires { read_field(node, field); }) {
      if (node.exists()) read_field(node, field);
    } else if constexpr (HasKeys<std::remove_reference_t<Field>, SectionReader>) {
      SectionReader below{node};
      visit_keys(below, field);
      below.finish();
    } else if (node.exists() || key.need == Need::required) {
      if (auto const value = read<Held>(node, key)) field = static_cast<Held>(*value);
    }
  }

  /// What another program calls a key: the hint for it, if the map has it instead.
  void synonym(std::string_view other, std::string_view key) { synonyms_.emplace_back(other, key); }

  /// A key that users look for and that does not exist: what is said of it beside the known ones.
  void not_modelled(std::string_view other, std::string_view why) {
    reasons_.emplace_back(other, why);
  }

  /// Reports every unknown key of the map, with the nearest known one, or a value that is not a
  /// map.
  void finish() const;

 private:
  template <typename Value>
  static auto read(ConfigNode const& node, Key const& key) {
    if constexpr (std::same_as<Value, bool>)
      return node.boolean();
    else if constexpr (std::integral<Value>)
      return node.integer(key.whole);
    else if constexpr (std::same_as<Value, double>)
      return node.number(key.range);
    else if constexpr (std::same_as<Value, std::string>)
      return node.text();
    else if constexpr (NamedEnum<Value>)
      return node.word<Value>();
    else
      return node.quantity<Value>();
  }

  ConfigNode section_;
  bool is_no_map_;  ///< and nothing is said of that yet
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> synonyms_;
  std::vector<std::pair<std::string, std::string>> reasons_;
};

}  // namespace stagecraft
