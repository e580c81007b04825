#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Packs a column of numbers into few bytes, which a page unpacks (web/decode.js).
///
/// Numbers are varints: seven bits per byte, the lowest first, the eighth set on all but the last.
/// Signed ones are zigzag-encoded first (0, -1, 1, -2, ...). The column begins with the number of
/// frequent values and these values, signed, the most frequent first; then each element is 1 + its
/// index among them, or 0 and the value itself, signed.
std::string pack_column(std::vector<std::int64_t> const& column);

/// Base64 as in RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace stagecraft
