#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace stagecraft {

/// How a configuration writes the values of an enumeration: specialised beside each enumeration,
/// with a `static constexpr std::array` named `all` of pairs (value, word).
template <typename Enum>
struct Words;

template <typename Enum>
constexpr std::string_view word_of(Enum value) {
  for (auto const& [candidate, word] : Words<Enum>::all) {
    if (candidate == value) return word;
  }
  return {};
}

template <typename Enum>
constexpr std::optional<Enum> parse_word(std::string_view text) {
  for (auto const& [value, word] : Words<Enum>::all) {
    if (word == text) return value;
  }
  return std::nullopt;
}

/// The words of all values in one text: `gpipe, 1f1b, interleaved`.
template <typename Enum>
std::string accepted_words() {
  std::string text;
  for (auto const& entry : Words<Enum>::all) {
    if (!text.empty()) text += ", ";
    text += entry.second;
  }
  return text;
}

}  // namespace stagecraft
