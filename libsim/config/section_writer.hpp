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
class SectionWriter : public KeyVisitor<SectionWriter> {
 public:
  /// The map so far, with its keys in the order of the struct's visit_keys().
  nlohmann::ordered_json const& map() const { return map_; }

  void put(std::string_view key, nlohmann::ordered_json value) {
    map_[std::string{key}] = std::move(value);
  }

  bool prints(bool is_used) const { return is_used; }

  template <typename Field>
  void key(Key const& key, Field const& field) {
    if constexpr (NamedEnum<Field>) {
      put(key.name, name_of(field));
    } else if constexpr (std::is_arithmetic_v<Field> || std::same_as<Field, std::string>) {
      put(key.name, field);
    } else if constexpr (requires { to_json(field); }) {
      put(key.name, to_json(field));
    } else if constexpr (is_optional<Field>) {
      if (field) this->key(key, *field);
    } else if constexpr (HasKeys<Field const, SectionWriter>) {
      SectionWriter below;
      visit_keys(below, field);
      put(key.name, below.map());
    } else {
      put(key.name, exact_text(field));
    }
  }

 private:
  nlohmann::ordered_json map_ = nlohmann::ordered_json::object();
};

}  // namespace stagecraft
