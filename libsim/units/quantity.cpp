#include "libsim/units/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// A unit is 10^decimal * 2^binary times its base unit.
struct Unit {
  std::string_view name;
  int decimal = 0;
  int binary = 0;
};

constexpr std::array byte_units{Unit{"B"},          Unit{"KB", 3},      Unit{"MB", 6},
                                Unit{"GB", 9},      Unit{"TB", 12},     Unit{"KiB", 0, 10},
                                Unit{"MiB", 0, 20}, Unit{"GiB", 0, 30}, Unit{"TiB", 0, 40}};
constexpr std::array byte_rate_units{
    Unit{"B/s"},          Unit{"KB/s", 3},       Unit{"MB/s", 6},       Unit{"GB/s", 9},
    Unit{"TB/s", 12},     Unit{"KiB/s", 0, 10},  Unit{"MiB/s", 0, 20},  Unit{"GiB/s", 0, 30},
    Unit{"TiB/s", 0, 40}, Unit{"Mbit/s", 6, -3}, Unit{"Gbit/s", 9, -3}, Unit{"Tbit/s", 12, -3}};
/// Other ways to write a unit of the tables; a small b is a bit. Sizes take the suffixes of counts,
/// without the B.
constexpr std::array<std::pair<std::string_view, std::string_view>, 33> spellings{
    {{"kB", "KB"},
     {"k", "KB"},
     {"K", "KB"},
     {"M", "MB"},
     {"G", "GB"},
     {"T", "TB"},
     {"Ki", "KiB"},
     {"Mi", "MiB"},
     {"Gi", "GiB"},
     {"Ti", "TiB"},
     {"kB/s", "KB/s"},
     {"Mbps", "Mbit/s"},
     {"Gbps", "Gbit/s"},
     {"Tbps", "Tbit/s"},
     {"Mb/s", "Mbit/s"},
     {"Gb/s", "Gbit/s"},
     {"Tb/s", "Tbit/s"},
     {"GBps", "GB/s"},
     {"TBps", "TB/s"},
     {"MBps", "MB/s"},
     {"FLOPS", "FLOP/s"},
     {"GFLOPS", "GFLOP/s"},
     {"TFLOPS", "TFLOP/s"},
     {"PFLOPS", "PFLOP/s"},
     {"GFLOPs", "GFLOP/s"},
     {"TFLOPs", "TFLOP/s"},
     {"PFLOPs", "PFLOP/s"},
     {"GFLOPs/s", "GFLOP/s"},
     {"TFLOPs/s", "TFLOP/s"},
     {"PFLOPs/s", "PFLOP/s"},
     {"\u00b5s", "us"},
     {"\u03bcs", "us"},
     {"sec", "s"}}};
constexpr std::array flop_rate_units{Unit{"FLOP/s"}, Unit{"MFLOP/s", 6}, Unit{"GFLOP/s", 9},
                                     Unit{"TFLOP/s", 12}, Unit{"PFLOP/s", 15}};
constexpr std::array time_units{Unit{"ps", -12}, Unit{"ns", -9}, Unit{"us", -6}, Unit{"ms", -3},
                                Unit{"s"}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// A quantity cut into its parts, not yet a number.
struct Parts {
  std::string_view mantissa;  ///< digits with at most one point
  int exponent = 0;           ///< the power of ten
  Unit unit;
};

std::optional<Parts> split(std::string_view text, std::span<Unit const> units) {
  text = trimmed(text);
  std::size_t end = 0;
  std::size_t points = 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) {
    points += text[end] == '.' ? 1U : 0U;
    ++end;
  }
  constexpr std::size_t longest = 40;
  if (end == points || points > 1 || end > longest) return std::nullopt;
  Parts parts;
  parts.mantissa = text.substr(0, end);
  text.remove_prefix(end);
  if (text.size() > 1 && text[0] == 'e' &&
      (is_digit(text[1]) || text[1] == '-' || text[1] == '+')) {
    std::size_t const sign = text[1] == '+' ? 2 : 1;
    auto const [stop, error] =
        std::from_chars(text.data() + sign, text.data() + text.size(), parts.exponent);
    if (error != std::errc{} || std::abs(parts.exponent) > 400) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  }
  text = trimmed(text);
  for (auto const& [spelling, name] : spellings) {
    if (text == spelling) text = name;
  }
  auto const* const unit = std::find_if(units.data(), units.data() + units.size(),
                                        [&](Unit const& u) { return u.name == text; });
  if (unit == units.data() + units.size()) return std::nullopt;
  parts.unit = *unit;
  return parts;
}

std::optional<double> value_of(Parts const& parts) {
  std::string const text =
      std::string{parts.mantissa} + "e" + std::to_string(parts.exponent + parts.unit.decimal);
  auto const number = parse_number<double>(text);
  if (!number) return std::nullopt;
  double const value = std::ldexp(*number, parts.unit.binary);
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

template <typename Quantity>
std::optional<Quantity> parse_real(std::string_view text, std::span<Unit const> units) {
  auto const parts = split(text, units);
  auto const value = parts ? value_of(*parts) : std::nullopt;
  if (!value) return std::nullopt;
  return Quantity{*value};
}

/// The shortest decimal digits of a number, and its exponent: value = 0.d1 d2 d3... * 10^exponent.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

Decimal decimal_of(double value) {
  std::array<char, 64> buffer{};
  auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  std::string_view const text{buffer.data(), static_cast<std::size_t>(end - buffer.data())};
  std::size_t const e = text.find('e');
  Decimal decimal;
  for (char const c : text.substr(0, e)) {
    if (is_digit(c)) decimal.digits.push_back(c);
  }
  decimal.exponent = std::stoi(std::string{text.substr(e + 1)}) + 1;
  return decimal;
}

std::string positional(Decimal const& decimal) {
  int const count = static_cast<int>(decimal.digits.size());
  int const point = decimal.exponent;
  constexpr int widest = 18;
  if (point > widest || point < -widest) {
    return "0." + decimal.digits + "e" + std::to_string(point);
  }
  if (point <= 0) return "0." + std::string(static_cast<std::size_t>(-point), '0') + decimal.digits;
  if (point >= count)
    return decimal.digits + std::string(static_cast<std::size_t>(point - count), '0');
  auto const at = static_cast<std::size_t>(point);
  return decimal.digits.substr(0, at) + "." + decimal.digits.substr(at);
}

/// The last unit that `fits`, or the first, which is the smallest, if none does.
template <class Fits>
Unit const& last_that_fits(std::span<Unit const> units, Fits const& fits) {
  Unit const* chosen = units.data();
  for (Unit const& unit : units) {
    if (fits(unit)) chosen = &unit;
  }
  return *chosen;
}

/// Writes `value` in the largest decimal unit in which it is at least 1. Shifting the exponent of
/// the shortest digits loses nothing, so the text parses back to the same double.
std::string exact_real(double value, std::span<Unit const> units, std::string_view base) {
  if (value == 0) return "0 " + std::string{base};
  Decimal decimal = decimal_of(value);
  Unit const& chosen = last_that_fits(
      units, [&](Unit const& unit) { return unit.binary == 0 && decimal.exponent > unit.decimal; });
  decimal.exponent -= chosen.decimal;
  return positional(decimal) + " " + std::string{chosen.name};
}

std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

std::string readable_real(double value, std::span<Unit const> units, std::string_view base) {
  if (value == 0) return "0 " + std::string{base};
  Unit const& chosen = last_that_fits(units, [&](Unit const& unit) {
    return unit.binary == 0 && value >= std::pow(10.0, unit.decimal);
  });
  return three_digits(value / std::pow(10.0, chosen.decimal)) + " " + std::string{chosen.name};
}

/// "4Ki" is 4096.
std::optional<std::int64_t> parse_binary_count(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, int>, 4> powers{
      {{"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}}};
  for (auto const& [suffix, power] : powers) {
    if (!text.ends_with(suffix)) continue;
    auto const count = parse_count(text.substr(0, text.size() - suffix.size()));
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    bool const is_plain = count && is_digit(text[text.size() - suffix.size() - 1]);
    if (!is_plain || *count > most >> power) return std::nullopt;
    return *count << power;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_count(std::string_view text) {
  if (text.ends_with('i')) return parse_binary_count(text);
  constexpr std::array<std::pair<char, std::size_t>, 6> powers{
      {{'k', 3}, {'K', 3}, {'M', 6}, {'G', 9}, {'B', 9}, {'T', 12}}};
  std::size_t power = 0;
  for (auto const& [letter, of_ten] : powers) {
    if (text.ends_with(letter)) power = of_ten;
  }
  if (power > 0) {
    text.remove_suffix(1);
  } else if (std::size_t const at = text.find('e'); at < text.size()) {
    auto const exponent = parse_number<std::size_t>(text.substr(at + 1));
    if (!exponent || *exponent > 18) return std::nullopt;
    power = *exponent;
    text = text.substr(0, at);
  }
  std::size_t const point = std::min(text.find('.'), text.size());
  std::string digits{text.substr(0, point)};
  std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  if (point < text.size() && (power == 0 || fraction.empty())) return std::nullopt;
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  bool const has_leading_zero = digits.size() > 1 && digits.front() == '0';
  if (digits.empty() || has_leading_zero || fraction.size() > power) return std::nullopt;
  digits += std::string{fraction} + std::string(power - fraction.size(), '0');
  if (!std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  std::int64_t count = 0;
  auto const [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc{}) return std::nullopt;
  return count;
}

template <>
std::optional<Bytes> parse_quantity<Bytes>(std::string_view text) {
  auto const parts = split(text, byte_units);
  if (!parts) return std::nullopt;
  constexpr std::int64_t limit = std::int64_t{1} << 62;
  // Whole numbers are scaled as integers: a double would round sizes beyond 2^53.
  if (parts->exponent == 0 && parts->mantissa.find('.') == std::string_view::npos) {
    auto const count = parse_number<std::int64_t>(parts->mantissa);
    if (!count) return std::nullopt;
    std::int64_t scale = std::int64_t{1} << parts->unit.binary;
    for (int i = 0; i < parts->unit.decimal; ++i) scale *= 10;
    if (*count >= limit / scale) return std::nullopt;
    return Bytes{*count * scale};
  }
  auto const value = value_of(*parts);
  if (!value || *value >= static_cast<double>(limit)) return std::nullopt;
  return Bytes{std::llround(*value)};
}

template <>
std::optional<BytesPerSecond> parse_quantity<BytesPerSecond>(std::string_view text) {
  return parse_real<BytesPerSecond>(text, byte_rate_units);
}

template <>
std::optional<FlopsPerSecond> parse_quantity<FlopsPerSecond>(std::string_view text) {
  return parse_real<FlopsPerSecond>(text, flop_rate_units);
}

template <>
std::optional<Seconds> parse_quantity<Seconds>(std::string_view text) {
  return parse_real<Seconds>(text, time_units);
}

template <>
std::string_view accepted_quantity<Bytes>() {
  return "a size with its unit, such as '80 GiB' (B, KB, MB, GB, TB, KiB, MiB, GiB, TiB)";
}

template <>
std::string_view accepted_quantity<BytesPerSecond>() {
  return "a data rate with its unit, such as '300 GB/s' (B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, "
         "MiB/s, GiB/s, TiB/s, Mbit/s or Mbps, Gbit/s or Gbps, Tbit/s or Tbps)";
}

template <>
std::string_view accepted_quantity<FlopsPerSecond>() {
  return "an arithmetic rate with its unit, such as '312 TFLOP/s' (FLOP/s, MFLOP/s, GFLOP/s, "
         "TFLOP/s, PFLOP/s; TFLOPS is the same)";
}

template <>
std::string_view accepted_quantity<Seconds>() {
  return "a time with its unit, such as '40 us' (ps, ns, us or \u00b5s, ms, s)";
}

std::string exact_text(Bytes size) {
  std::string best = std::to_string(size.count()) + " B";
  for (Unit const& unit : byte_units) {
    std::int64_t scale = std::int64_t{1} << unit.binary;
    for (int i = 0; i < unit.decimal; ++i) scale *= 10;
    if (size.count() == 0 || size.count() % scale != 0) continue;
    std::string const count = std::to_string(size.count() / scale);
    if (count.size() < best.find(' ')) best = count + " " + std::string{unit.name};
  }
  return best;
}

std::string exact_text(BytesPerSecond rate) {
  return exact_real(rate.value, byte_rate_units, "B/s");
}
std::string exact_text(FlopsPerSecond rate) {
  return exact_real(rate.value, flop_rate_units, "FLOP/s");
}
std::string exact_text(Seconds duration) { return exact_real(duration.value, time_units, "s"); }

std::string readable_text(Bytes size) {
  if (size.count() < 1024) return std::to_string(size.count()) + " B";
  auto const value = static_cast<double>(size.count());
  Unit const& chosen = last_that_fits(byte_units, [&](Unit const& unit) {
    return unit.binary != 0 && value >= std::ldexp(1.0, unit.binary);
  });
  return three_digits(std::ldexp(value, -chosen.binary)) + " " + std::string{chosen.name};
}

std::string readable_text(BytesPerSecond rate) {
  return readable_real(rate.value, byte_rate_units, "B/s");
}
std::string readable_text(FlopsPerSecond rate) {
  return readable_real(rate.value, flop_rate_units, "FLOP/s");
}
std::string readable_text(Seconds duration) {
  return readable_real(duration.value, time_units, "s");
}

}  // namespace stagecraft
