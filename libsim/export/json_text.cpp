#include "libsim/export/json_text.hpp"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace stagecraft {

std::string json_string(std::string_view text) {
  auto const replace = nlohmann::json::error_handler_t::replace;
  return nlohmann::json(std::string{text}).dump(-1, ' ', true, replace);
}

std::string sound_utf8(std::string_view text) {
  return nlohmann::json::parse(json_string(text)).get<std::string>();
}

void append_number(std::string& text, std::int64_t number) {
  std::array<char, 24> digits{};
  auto const [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text.append(digits.data(), end);
}

void append_microseconds(std::string& text, std::int64_t nanoseconds) {
  append_number(text, nanoseconds / 1000);
  auto const fraction = static_cast<int>(nanoseconds % 1000);
  text += '.';
  text += static_cast<char>('0' + fraction / 100);
  text += static_cast<char>('0' + fraction / 10 % 10);
  text += static_cast<char>('0' + fraction % 10);
}

}  // namespace stagecraft
