#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace stagecraft {

/// The finite number that all of `text` spells, in the format of std::from_chars: without spaces, a
/// plus sign or a locale. Returns nullopt for any other text, for `inf` and `nan`, and for a number
/// that `Number` cannot hold.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  char const* const end = text.data() + text.size();
  auto const [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) return std::nullopt;
  }
  return number;
}

}  // namespace stagecraft
