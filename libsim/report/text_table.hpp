#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// The words of a text in lines of at most `width` columns (a longer word gets a line of its own);
/// all lines but the first are indented by `indent`. Each ends with a newline; each code point of
/// UTF-8 counts as one column.
std::string wrapped(std::string const& text, int width, std::size_t indent = 0);

/// Wraps each line of a text by itself.
std::string wrapped_lines(std::string const& text, int width, std::size_t indent = 0);

enum class Align : unsigned char { left, right };

/// A table in aligned columns of text, two spaces apart, with one line of headings. Cells may
/// contain UTF-8.
class TextTable {
 public:
  struct Column {
    std::string heading;
    Align align = Align::right;
  };

  explicit TextTable(std::vector<Column> columns) : columns_{std::move(columns)} {}

  /// Pre: there are as many cells as columns.
  void add_row(std::vector<std::string> cells);
  /// Adds a line across the table.
  void add_rule() { rows_.emplace_back(); }

  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  ///< an empty row is a rule
};

/// A column of a table whose rows have one type: what it shows of a row.
template <typename Row>
struct ColumnOf {
  std::string heading;
  std::function<std::string(Row const&)> cell;
  Align align = Align::right;
  bool is_shown = true;
};

/// A table of rows that its columns declare. Columns that are not shown are left out.
template <typename Row, typename Rows>
TextTable table_of(std::vector<ColumnOf<Row>> const& columns, Rows&& rows) {
  std::vector<TextTable::Column> headings;
  for (ColumnOf<Row> const& column : columns) {
    if (column.is_shown) headings.push_back({column.heading, column.align});
  }
  TextTable table{std::move(headings)};
  for (Row const& row : rows) {
    std::vector<std::string> cells;
    for (ColumnOf<Row> const& column : columns) {
      if (column.is_shown) cells.push_back(column.cell(row));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

/// The texts with a separator between each two.
std::string joined(std::vector<std::string> const& texts, std::string const& separator);

/// A name of the program (a phase, a tensor, an op) for people: "weight gradient".
std::string readable_name(std::string name);

/// The number of code points of UTF-8 text; each counts as one column.
std::size_t columns_of(std::string const& text);

/// A number with a fixed number of decimals.
std::string decimals(double value, int count);
/// A number with its sign and a fixed number of decimals, e.g. "+1.25".
std::string signed_decimals(double value, int count);
/// Bytes in GiB with two decimals.
std::string gibibytes(std::int64_t bytes);

/// The unit of the bytes of a table.
struct ByteUnit {
  std::string_view name;  ///< "GiB"
  std::int64_t bytes = 1;
};
/// GiB, MiB or KiB: the largest unit that `largest`, the table's largest number, is at least a
/// tenth of.
ByteUnit unit_for(std::int64_t largest);
/// Bytes in a unit with two decimals.
std::string in_unit(ByteUnit const& unit, std::int64_t bytes);
/// Bytes with two decimals and the unit that fits them: "60.13 GiB", "-1.50 MiB".
std::string size_text(std::int64_t bytes);

/// The unit of the times of a table.
struct TimeUnit {
  std::string_view name;  ///< "s"
  SimTime time{1};
};
/// s, ms or us: the largest unit that `longest`, the table's longest time, is at least a tenth of.
TimeUnit unit_for(SimTime longest);
/// A time in a unit with three decimals.
std::string in_unit(TimeUnit const& unit, SimTime time);
/// A time with three decimals and the unit that fits it: "13.812 s".
std::string time_text(SimTime time);
/// Parts in a unit with three decimals, each rounded up or down so that the rounded parts sum to
/// their rounded sum.
std::vector<std::string> parts_in_unit(TimeUnit const& unit, std::vector<SimTime> const& parts);

}  // namespace stagecraft
