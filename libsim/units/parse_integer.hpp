#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "libsim/units/quantity.hpp"

namespace stagecraft {

/// Parses what parse_count() does, with a minus sign or without.
inline std::optional<std::int64_t> parse_integer(std::string_view text) {
  bool const is_negative = text.starts_with('-');
  auto const count = parse_count(text.substr(is_negative ? 1 : 0));
  if (count && is_negative) return -*count;
  return count;
}

}  // namespace stagecraft
