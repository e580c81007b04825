#include "libsim/page/column_packing.hpp"

#include <algorithm>
#include <unordered_map>

#include "libsim/units/varint.hpp"

namespace stagecraft {

namespace {

/// The indices of so many frequent values take at most two bytes.
constexpr std::size_t most_frequent_values = 16'382;

void append_signed(std::string& bytes, std::int64_t number) {
  auto const sign = static_cast<std::uint64_t>(number < 0 ? -1 : 0);
  append_varint(bytes, (static_cast<std::uint64_t>(number) << 1) ^ sign);
}

/// The values that occur more than once, the most frequent first (ties: the smaller).
std::vector<std::int64_t> frequent_values(std::vector<std::int64_t> const& column) {
  std::unordered_map<std::int64_t, std::size_t> counts;
  for (std::int64_t const value : column) ++counts[value];
  std::vector<std::pair<std::size_t, std::int64_t>> frequent;
  for (auto const& [value, count] : counts) {
    if (count > 1) frequent.emplace_back(count, value);
  }
  std::sort(frequent.begin(), frequent.end(), [](auto const& a, auto const& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::int64_t> values;
  for (auto const& [count, value] : frequent) {
    if (values.size() == most_frequent_values) break;
    values.push_back(value);
  }
  return values;
}

}  // namespace

std::string pack_column(std::vector<std::int64_t> const& column) {
  std::vector<std::int64_t> const values = frequent_values(column);
  std::unordered_map<std::int64_t, std::uint64_t> places;
  std::string bytes;
  append_varint(bytes, values.size());
  for (std::int64_t const value : values) {
    append_signed(bytes, value);
    places.emplace(value, places.size() + 1);
  }
  for (std::int64_t const value : column) {
    auto const found = places.find(value);
    append_varint(bytes, found == places.end() ? 0 : found->second);
    if (found == places.end()) append_signed(bytes, value);
  }
  return bytes;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : digits[group >> (18 - 6 * k) & 63];
    }
  }
  return text;
}

}  // namespace stagecraft
