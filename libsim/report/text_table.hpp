#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stagecraft {

enum class Align : unsigned char { left, right };

/// A table in aligned columns of text, two spaces apart, with one line of headings. Cells may hold
/// UTF-8; each code point counts as one column.
class TextTable {
 public:
  struct Column {
    std::string heading;
    Align align = Align::right;
  };

  explicit TextTable(std::vector<Column> columns) : columns_{std::move(columns)} {}

  /// Pre: as many cells as columns.
  void add_row(std::vector<std::string> cells);
  /// A line across the table.
  void add_rule() { rows_.emplace_back(); }

  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  ///< an empty row is a rule
};

/// A number with a fixed count of decimals.
std::string decimals(double value, int count);
/// A number with its sign and a fixed count of decimals, e.g. "+1.25".
std::string signed_decimals(double value, int count);
/// Bytes in GiB with two decimals.
std::string gibibytes(std::int64_t bytes);

/// What a table's bytes are given in.
struct ByteUnit {
  std::string_view name;  ///< "GiB"
  std::int64_t bytes = 1;
};
/// GiB, MiB or KiB: the largest of which `largest`, the table's largest number, has a tenth.
ByteUnit unit_for(std::int64_t largest);
/// Bytes in a unit with two decimals.
std::string in_unit(ByteUnit const& unit, std::int64_t bytes);

}  // namespace stagecraft
