#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// "1 pass", "3 passes".
template <std::integral Count>
std::string counted(Count count, std::string const& one, std::string const& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

/// "1 run", "3 runs".
template <std::integral Count>
std::string counted(Count count, std::string const& one) {
  return counted(count, one, one + "s");
}

/// Reads a quantity as a configuration or a flag writes it: a number, an optional space and a unit,
/// as in `80 GiB`, `300 GB/s`, `200 Gbit/s`, `312 TFLOP/s`, `92.8 us`. Units are case-sensitive; GB
/// is 10^9 and GiB 2^30. Other spellings of a unit are accepted: Gbps and Gb/s for Gbit/s, µs for
/// us, TFLOPS for TFLOP/s. Decimal scales are applied before rounding, so `92.8 us` is the double
/// nearest to 92.8e-6; a size is rounded to whole bytes.
///
/// Returns nullopt for a bare number, an unknown unit, and a number that is negative or out of
/// range; accepted_quantity() then says what would have been accepted. Defined for Bytes (below
/// 2^62), BytesPerSecond, FlopsPerSecond and Seconds.
template <typename Quantity>
std::optional<Quantity> parse_quantity(std::string_view text);

/// Reads a whole number as people write it: digits without a sign or leading zeros, or a decimal
/// number with k, M, B, T (10^3, 10^6, 10^9, 10^12) or a power of ten: `4k`, `1.5M`, `2e6`.
///
/// Returns nullopt for anything else, for 1.0005k, which is not whole, and for 2^63 and more.
std::optional<std::int64_t> parse_count(std::string_view text);

/// What parse_quantity<Quantity>() accepts, for the end of an error message: an example and all
/// units.
template <typename Quantity>
std::string_view accepted_quantity();

/// The quantity with a unit, in the shortest text from which parse_quantity() gives back the same
/// value.
std::string exact_text(Bytes size);
std::string exact_text(BytesPerSecond rate);
std::string exact_text(FlopsPerSecond rate);
std::string exact_text(Seconds duration);

/// The quantity rounded to three significant digits, for people: `12.3 GiB`, `92.8 us`.
/// Pre: not negative.
std::string readable_text(Bytes size);
std::string readable_text(BytesPerSecond rate);
std::string readable_text(FlopsPerSecond rate);
std::string readable_text(Seconds duration);

template <>
std::optional<Bytes> parse_quantity<Bytes>(std::string_view text);
template <>
std::optional<BytesPerSecond> parse_quantity<BytesPerSecond>(std::string_view text);
template <>
std::optional<FlopsPerSecond> parse_quantity<FlopsPerSecond>(std::string_view text);
template <>
std::optional<Seconds> parse_quantity<Seconds>(std::string_view text);

template <>
std::string_view accepted_quantity<Bytes>();
template <>
std::string_view accepted_quantity<BytesPerSecond>();
template <>
std::string_view accepted_quantity<FlopsPerSecond>();
template <>
std::string_view accepted_quantity<Seconds>();

/// Parses what parse_count() does, with a minus sign or without.
inline std::optional<std::int64_t> parse_integer(std::string_view text) {
  bool const is_negative = text.starts_with('-');
  auto const count = parse_count(text.substr(is_negative ? 1 : 0));
  if (count && is_negative) return -*count;
  return count;
}

}  // namespace stagecraft
