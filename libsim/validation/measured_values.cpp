#include "libsim/validation/measured_values.hpp"

#include <cmath>

#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

std::string_view without_spaces(std::string_view text) {
  std::size_t const begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// A number above 0.
bool read(std::string_view text, std::optional<double>& value) {
  auto const number = parse_number<double>(text);
  if (!number || *number <= 0) return false;
  value = number;
  return true;
}

/// A number of bytes, rounded to a whole one.
bool read(std::string_view text, std::optional<std::int64_t>& value) {
  constexpr double largest = 1e18;
  auto const number = parse_number<double>(text);
  if (!number || *number < 1 || *number > largest) return false;
  value = static_cast<std::int64_t>(std::llround(*number));
  return true;
}

bool read(std::string_view text, std::optional<int>& value) {
  auto const number = parse_number<int>(text);
  if (!number || *number < 0) return false;
  value = number;
  return true;
}

bool read(std::string_view text, std::optional<bool>& value) {
  if (text == "true" || text == "True") value = true;
  if (text == "false" || text == "False") value = false;
  return value.has_value();
}

bool read_weight(std::string_view text, double& value) {
  auto const number = parse_number<double>(text);
  if (!number || *number < 0) return false;
  value = *number;
  return true;
}

constexpr char const* accepted_bytes = "a number of bytes above 0, or an empty cell";

/// A column and how its cells are read.
struct Column {
  char const* name;
  char const* accepted;
  bool (*read)(std::string_view text, MeasuredValues& values);
};

std::vector<Column> const& columns() {
  static std::vector<Column> const all{
      {"id", "", nullptr},
      {"group", "", nullptr},
      {"weight", "a number from 0, or an empty cell",
       [](std::string_view text, MeasuredValues& values) {
         return read_weight(text, values.weight);
       }},
      {"measured.iteration_seconds", "a number of seconds above 0, or an empty cell",
       [](std::string_view text, MeasuredValues& values) {
         return read(text, values.iteration_seconds);
       }},
      {"measured.reserved_bytes", accepted_bytes,
       [](std::string_view text, MeasuredValues& values) {
         return read(text, values.reserved_bytes);
       }},
      {"measured.allocated_bytes", accepted_bytes,
       [](std::string_view text, MeasuredValues& values) {
         return read(text, values.allocated_bytes);
       }},
      {"measured.first_allocated_bytes", accepted_bytes,
       [](std::string_view text, MeasuredValues& values) {
         return read(text, values.first_allocated_bytes);
       }},
      {"measured.resident_bytes", accepted_bytes,
       [](std::string_view text, MeasuredValues& values) {
         return read(text, values.resident_bytes);
       }},
      {"measured.stage", "the number of a pipeline stage, from 0, or an empty cell",
       [](std::string_view text, MeasuredValues& values) { return read(text, values.stage); }},
      {"measured.fits", "true, false, or an empty cell",
       [](std::string_view text, MeasuredValues& values) { return read(text, values.fits); }}};
  return all;
}

}  // namespace

std::vector<std::string> const& measured_columns() {
  static std::vector<std::string> const names = [] {
    std::vector<std::string> all;
    for (Column const& column : columns()) all.emplace_back(column.name);
    return all;
  }();
  return names;
}

bool is_measurement(std::string_view column) {
  return column.starts_with("measured.") && column != "measured.stage";
}

void read_measured_value(std::string_view column,
                         std::string const& text,
                         Place const& place,
                         MeasuredValues& values,
                         Diagnostics& diagnostics) {
  if (column == "id") values.id = text;
  if (column == "group") values.group = text;
  std::string_view const value = without_spaces(text);
  if (value.empty()) return;
  for (Column const& known : columns()) {
    if (known.name != column || known.read == nullptr || known.read(value, values)) continue;
    diagnostics.add(
        {place, known.name, "'" + printable(text) + "'", std::string{known.accepted}, true});
  }
}

}  // namespace stagecraft
