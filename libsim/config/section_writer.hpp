#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "libsim/config/section_reader.hpp"
#include "libsim/units/enum_names.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

/// Writes a struct as the map from which SectionReader would read it, with every field, defaults
/// included.
class SectionWriter {
 public:
  /// The map so far, with its keys in the order of the struct's visit_fields().
  nlohmann::ordered_json const& map() const { return map_; }

  void put(std::string_view key, nlohmann::ordered_json value) {
    map_[std::string{key}] = std::move(value);
  }

  template <std::integral Integer>
  void integer(std::string_view key, Integer field, IntegerRange, Need = Need::optional) {
    put(key, field);
  }
  void number(std::string_view key, double field, NumberRange, Need = Need::optional) {
    put(key, field);
  }
  /// Writes a field that may be empty, if it is not.
  void integer(std::string_view key, std::optional<std::int64_t> field, IntegerRange) {
    if (field) put(key, *field);
  }
  void number(std::string_view key, std::optional<double> field, NumberRange) {
    if (field) put(key, *field);
  }
  void boolean(std::string_view key, std::optional<bool> field) {
    if (field) put(key, *field);
  }
  void boolean(std::string_view key, bool field, Need = Need::optional) { put(key, field); }
  void text(std::string_view key, std::string const& field, Need = Need::optional) {
    put(key, field);
  }

  template <typename Enum>
  void word(std::string_view key, Enum field, Need = Need::optional) {
    put(key, name_of(field));
  }
  template <typename Quantity>
  void quantity(std::string_view key, Quantity field, Need = Need::optional) {
    put(key, exact_text(field));
  }
  template <typename Quantity>
  void quantity(std::string_view key, std::optional<Quantity> const& field) {
    if (field) put(key, exact_text(*field));
  }

 private:
  nlohmann::ordered_json map_ = nlohmann::ordered_json::object();
};

}  // namespace stagecraft
