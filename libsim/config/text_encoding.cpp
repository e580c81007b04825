#include "libsim/config/text_encoding.hpp"

#include <cstddef>

namespace stagecraft {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

/// The length of the UTF-8 sequence at `i`; 0 if there is none.
std::size_t sequence_length(std::string_view text, std::size_t i) {
  unsigned char const lead = byte_at(text, i);
  if (lead < 0x80) return 1;
  std::size_t const length = lead >= 0xC2 && lead < 0xE0   ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xC0U) != 0x80U) return 0;
  }
  unsigned char const second = byte_at(text, i + 1);
  bool const is_overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  bool const is_surrogate = lead == 0xED && second >= 0xA0;
  bool const is_beyond_unicode = lead == 0xF4 && second >= 0x90;
  return is_overlong || is_surrogate || is_beyond_unicode ? 0 : length;
}

std::string hex(unsigned char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  return std::string{"0x"} + digits[byte >> 4U] + digits[byte & 0xFU];
}

}  // namespace

std::optional<BadText> find_bad_text(std::string_view text) {
  BadText here;
  for (std::size_t i = 0; i < text.size();) {
    unsigned char const byte = byte_at(text, i);
    std::size_t const length = sequence_length(text, i);
    if (length == 0) {
      here.found = text.starts_with("\x89HDF")
                       ? "an HDF5 file (stagecraft report, export and compare take traces)"
                       : "a byte " + hex(byte) + ", which is not UTF-8";
      return here;
    }
    if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') {
      here.found = "a control character " + hex(byte);
      return here;
    }
    if (byte == '\n') {
      ++here.line;
      here.column = 1;
    } else {
      here.column += static_cast<int>(length);
    }
    i += length;
  }
  return std::nullopt;
}

}  // namespace stagecraft
