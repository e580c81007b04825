#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/config_node.hpp"

namespace stagecraft {

/// Whether a key may be left out.
enum class Need : std::uint8_t { optional, required };

/// Reads the keys of one map into a struct, as the struct's visit_fields() names them, and reports
/// unknown keys. A key that is left out, or that cannot be read, leaves its field unchanged: the
/// struct's own initialisers are the defaults. SectionWriter is the inverse.
class SectionReader {
 public:
  /// Reports a value that is not a map. A section that does not exist reads like an empty one.
  explicit SectionReader(ConfigNode section);

  /// The value of `key`, which from then on counts as known.
  ConfigNode take(std::string_view key);

  template <std::integral Integer>
  void integer(std::string_view key,
               Integer& field,
               IntegerRange range,
               Need need = Need::optional) {
    if (auto const node = wanted(key, need)) {
      if (auto const value = node->integer(range)) field = static_cast<Integer>(*value);
    }
  }

  void number(std::string_view key, double& field, NumberRange range, Need need = Need::optional);

  /// For fields whose default depends on other fields: empty if the key is left out.
  void integer(std::string_view key, std::optional<std::int64_t>& field, IntegerRange range);
  void number(std::string_view key, std::optional<double>& field, NumberRange range);
  void boolean(std::string_view key, std::optional<bool>& field);

  void boolean(std::string_view key, bool& field, Need need = Need::optional);
  void text(std::string_view key, std::string& field, Need need = Need::optional);

  template <typename Enum>
  void word(std::string_view key, Enum& field, Need need = Need::optional) {
    if (auto const node = wanted(key, need)) {
      if (auto const value = node->word<Enum>()) field = *value;
    }
  }

  template <typename Quantity>
  void quantity(std::string_view key, Quantity& field, Need need = Need::optional) {
    if (auto const node = wanted(key, need)) {
      if (auto const value = node->quantity<Quantity>()) field = *value;
    }
  }

  /// Empty if the key is left out.
  template <typename Quantity>
  void quantity(std::string_view key, std::optional<Quantity>& field) {
    if (auto const node = wanted(key, Need::optional)) {
      if (auto const read = node->quantity<Quantity>()) field = *read;
    }
  }

  /// What another program calls a key: the hint for it, if the map has it instead.
  void synonym(std::string_view other, std::string_view key) { synonyms_.emplace_back(other, key); }

  /// A key that users look for and that does not exist: what is said of it beside the known ones.
  void not_modelled(std::string_view other, std::string_view why) {
    reasons_.emplace_back(other, why);
  }

  /// Reports every unknown key of the map, with the nearest known one.
  void finish() const;

 private:
  /// The node of `key`; nullopt if the key is optional and left out.
  std::optional<ConfigNode> wanted(std::string_view key, Need need);

  ConfigNode section_;
  std::vector<std::string> known_;
  std::vector<std::pair<std::string, std::string>> synonyms_;
  std::vector<std::pair<std::string, std::string>> reasons_;
};

}  // namespace stagecraft
