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
/// keys that nobody asked for. A key that is left out, or that cannot be read, leaves its field as
/// it is: a struct's own initialisers are the defaults. SectionWriter is the other direction.
class SectionReader {
 public:
  /// Reports a value that is no map. A section that does not exist reads like an empty one.
  explicit SectionReader(ConfigNode section);

  /// The value of `key`, which thereby counts as known.
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

  /// Fields whose default depends on other fields: left empty where the key is left out.
  void integer(std::string_view key, std::optional<std::int64_t>& field, IntegerRange range);
  void number(std::string_view key, std::optional<double>& field, NumberRange range);

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

  /// Reports every key of the map that was not asked for, with the nearest one that was.
  void finish() const;

 private:
  /// The node of `key` unless it is left out and may be.
  std::optional<ConfigNode> wanted(std::string_view key, Need need);

  ConfigNode section_;
  std::vector<std::string> known_;
};

}  // namespace stagecraft
