#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"
#include "apps/stagecraft/plan/table_columns.hpp"

namespace stagecraft {

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
