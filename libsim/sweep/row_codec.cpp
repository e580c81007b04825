#include "libsim/sweep/row_codec.hpp"

#include <cstring>
#include <type_traits>

namespace stagecraft {
namespace {

template <typename Number>
void put(std::string& bytes, Number number) {
  static_assert(std::is_arithmetic_v<Number>);
  char raw[sizeof number];
  std::memcpy(raw, &number, sizeof number);
  bytes.append(raw, sizeof number);
}

void put(std::string& bytes, std::string const& text) {
  put(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

/// Takes values from the front of some bytes; is_sound becomes false if there are too few.
struct ByteSource {
  std::string_view bytes;
  bool is_sound = true;

  std::string_view take(std::size_t count) {
    if (count > bytes.size()) {
      is_sound = false;
      return {};
    }
    std::string_view const taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  template <typename Number>
  Number number() {
    std::string_view const raw = take(sizeof(Number));
    Number value{};
    if (is_sound) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string{take(number<std::uint64_t>())}; }
};

SweepRow read_row(ByteSource& source) {
  SweepRow row;
  row.point = source.number<std::int64_t>();
  row.is_valid = source.number<std::uint8_t>() != 0;
  row.message = source.text();
  row.plan = source.text();
  for (std::size_t i = 0; i < integer_columns().size(); ++i) {
    row.integers.push_back(source.number<std::int64_t>());
  }
  for (std::size_t i = 0; i < real_columns().size(); ++i) {
    row.reals.push_back(source.number<double>());
  }
  auto const warnings = source.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < warnings && source.is_sound; ++i) {
    row.warnings.push_back(source.text());
  }
  return row;
}

}  // namespace

std::string encode_batch(std::int64_t batch, std::vector<SweepRow> const& rows) {
  std::string bytes;
  put(bytes, batch);
  for (SweepRow const& row : rows) {
    put(bytes, row.point);
    put(bytes, static_cast<std::uint8_t>(row.is_valid ? 1 : 0));
    put(bytes, row.message);
    put(bytes, row.plan);
    for (std::int64_t const value : row.integers) put(bytes, value);
    for (double const value : row.reals) put(bytes, value);
    put(bytes, static_cast<std::uint64_t>(row.warnings.size()));
    for (std::string const& warning : row.warnings) put(bytes, warning);
  }
  return bytes;
}

std::optional<SweepBatch> decode_batch(std::string_view bytes) {
  ByteSource source{bytes};
  SweepBatch batch;
  batch.number = source.number<std::int64_t>();
  while (source.is_sound && !source.bytes.empty()) batch.rows.push_back(read_row(source));
  if (!source.is_sound || batch.number < 0) return std::nullopt;
  return batch;
}

}  // namespace stagecraft
