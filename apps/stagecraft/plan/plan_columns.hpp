#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

/// The columns of a table, and what all its rows have in common. Between two calls, every row has
/// a cell in each column; columns of small numbers that follow each other share one.
class TableColumns {
 public:
  explicit TableColumns(std::size_t rows) : cells_(rows) {}

  template <typename Text>
  void add(std::string heading, Align align, Text const& text) {
    columns_.push_back({std::move(heading), align});
    for (std::size_t row = 0; row < cells_.size(); ++row) cells_[row].push_back(text(row));
    ends_in_numbers_ = false;
  }

  /// A column of small numbers: one space from such a column before it, where others have two.
  template <typename Text>
  void add_number(std::string const& heading, Text const& text) {
    std::size_t width = heading.size();
    for (std::size_t row = 0; row < cells_.size(); ++row) width = std::max(width, text(row).size());
    std::string const space = ends_in_numbers_ ? " " : "";
    auto const padded = [&](std::string const& cell) {
      return space + std::string(width - cell.size(), ' ') + cell;
    };
    if (!ends_in_numbers_) add("", Align::right, [](std::size_t) { return std::string{}; });
    columns_.back().heading += padded(heading);
    for (std::size_t row = 0; row < cells_.size(); ++row) cells_[row].back() += padded(text(row));
    ends_in_numbers_ = true;
  }

  /// Whether rows have different texts. If not, the column becomes a part of common().
  template <typename Text, typename Sentence>
  bool vary(Text const& text, Sentence const& sentence) {
    for (std::size_t row = 1; row < cells_.size(); ++row) {
      if (text(row) != text(0)) return true;
    }
    common_ += (common_.empty() ? "" : ", ") + sentence(0);
    return false;
  }

  std::string const& common() const { return common_; }

  /// The heading and a line for each row.
  std::vector<std::string> lines() const;

 private:
  std::vector<TextTable::Column> columns_;
  std::vector<std::vector<std::string>> cells_;  ///< by row
  std::string common_;
  bool ends_in_numbers_ = false;
};

/// The columns that the longest line takes.
std::size_t width_of(std::vector<std::string> const& lines);

/// What a table of plans shows.
struct TableStyle {
  int width = 100;  ///< in columns
  /// Whether the policies of all stages are shown, below a row that has no room for them. If not,
  /// a row has what they have in common, and columns that say least are left out until it fits.
  bool has_stages = false;
  bool is_comparison = false;  ///< of several clusters, whose names are columns
  bool is_front = false;       ///< of time against memory, which is never left out
};

/// The columns that a table leaves out if it has no room for them, in the order in which they go.
enum class Expendable : std::uint8_t {
  flops,
  peak,
  causal,
  split,
  mfu,
  recompute,
  daily,
  days,
  none
};

/// The columns of a table of plans.
struct PlanColumns {
  TableColumns columns;
  std::vector<std::string> legend;  ///< explains them, a part of a sentence each
};

/// All but the columns before `least`, and but that of recompute policies.
PlanColumns plan_columns(std::vector<ShownPlan> const& plans,
                         std::vector<std::size_t> const& numbers,
                         TableStyle const& style,
                         Expendable least);

}  // namespace stagecraft
