#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace stagecraft {

/// The names of an enumeration's values in configurations, traces and output. Specialised beside
/// each enumeration, with a `static constexpr std::array` named `all` of pairs (value, name).
template <typename Enum>
struct EnumNames;

template <typename Enum>
concept NamedEnum = requires {
  EnumNames<Enum>::all;
};

/// EnumNames<Enum>::all of a table of all that is told of the values, with members `name` and
/// `value`. \throws std::logic_error  if its rows are not in the order of the enumeration, which is
/// an error when it is compiled.
template <typename Enum, typename Row, std::size_t count>
consteval std::array<std::pair<Enum, std::string_view>, count> names_in(
    std::array<Row, count> const& table, Enum Row::*value) {
  std::array<std::pair<Enum, std::string_view>, count> names{};
  for (std::size_t i = 0; i < count; ++i) {
    if (table[i].*value != static_cast<Enum>(i)) throw std::logic_error{"a row is out of order"};
    names[i].first = table[i].*value;
    names[i].second = table[i].name;
  }
  return names;
}

/// \throws std::out_of_range  if `value` has no name.
template <NamedEnum Enum>
constexpr std::string_view name_of(Enum value) {
  for (auto const& [candidate, name] : EnumNames<Enum>::all) {
    if (candidate == value) return name;
  }
  throw std::out_of_range{"value " + std::to_string(static_cast<std::int64_t>(value)) +
                          " of an enumeration has no name"};
}

/// Returns nullopt if no value has the name.
template <NamedEnum Enum>
constexpr std::optional<Enum> value_named(std::string_view text) {
  for (auto const& [value, name] : EnumNames<Enum>::all) {
    if (name == text) return value;
  }
  return std::nullopt;
}

/// The names of all values in one text: `gpipe, 1f1b, interleaved`.
template <NamedEnum Enum>
std::string accepted_names() {
  std::string text;
  for (auto const& entry : EnumNames<Enum>::all) {
    if (!text.empty()) text += ", ";
    text += entry.second;
  }
  return text;
}

}  // namespace stagecraft
