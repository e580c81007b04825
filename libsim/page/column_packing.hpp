#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// A column of numbers in few bytes, for a page to unpack (web/decode.js).
///
/// Numbers are varints: seven bits a byte, the lowest first, the eighth set on all but the last. A
/// signed one is zigzagged before (0, -1, 1, -2, ...). First the count of frequent values and these
/// values, signed, the most frequent first; then for each element 1 + its place among them, or 0
/// and the value itself, signed.
std::string pack_column(std::vector<std::int64_t> const& column);

/// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace stagecraft
