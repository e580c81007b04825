#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

/// A value that may be missing is null in JSON if it is.
template <typename Value>
struct nlohmann::adl_serializer<std::optional<Value>> {
  template <typename Json>
  static void to_json(Json& json, std::optional<Value> const& value) {
    if (value) {
      json = *value;
    } else {
      json = nullptr;
    }
  }
};

namespace stagecraft {

/// What `part` makes of a value, such as a member of it; null if the value is missing.
template <typename Value, typename Part>
nlohmann::ordered_json part_or_null(std::optional<Value> const& value, Part&& part) {
  if (!value) return nullptr;
  return std::invoke(std::forward<Part>(part), *value);
}

/// A text, or null for an empty one.
inline nlohmann::ordered_json text_or_null(std::string const& text) {
  if (text.empty()) return nullptr;
  return text;
}

/// A list of what `make` makes of each element.
template <typename Elements, typename Make>
nlohmann::ordered_json list_of(Elements const& elements, Make const& make) {
  auto list = nlohmann::ordered_json::array();
  for (auto const& element : elements) list.push_back(std::invoke(make, element));
  return list;
}

}  // namespace stagecraft
