#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stagecraft {

/// Text as a JSON string with its quotes. Bytes that are not UTF-8 are replaced.
std::string json_string(std::string_view text);

/// The text with bytes that are not UTF-8 replaced.
std::string sound_utf8(std::string_view text);

void append_number(std::string& text, std::int64_t number);

/// Nanoseconds as microseconds with three decimals: 1234567 gives 1234.567. Pre: not negative.
void append_microseconds(std::string& text, std::int64_t nanoseconds);

/// Rounds picoseconds to nanoseconds. Pre: not negative.
constexpr std::int64_t nanoseconds_of(std::int64_t picoseconds) {
  return (picoseconds + 500) / 1000;
}

}  // namespace stagecraft
