#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stagecraft {

/// The first byte of a text that does not belong in a UTF-8 text file.
struct BadText {
  int line = 1;  ///< from 1
  int column = 1;
  std::string found;  ///< such as "a byte 0xff, which is not UTF-8"
};

/// Looks for invalid UTF-8 (overlong forms and surrogates included) and for control characters
/// other than tab, line feed and carriage return, which yaml-cpp would pass on unseen or misread.
/// Source: RFC 3629, section 4; YAML 1.2.2, section 5.1.
std::optional<BadText> find_bad_text(std::string_view text);

}  // namespace stagecraft
