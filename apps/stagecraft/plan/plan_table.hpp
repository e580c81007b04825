#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"
#include "apps/stagecraft/plan/plan_columns.hpp"

namespace stagecraft {

/// A table of plans, in parts.
struct PlanTable {
  std::vector<std::string> legend;  ///< explains its columns, a part of a sentence each
  std::string common;               ///< what all rows have in common; a line, or empty
  std::string heading;              ///< a line
  std::vector<std::string> rows;    ///< by plan; a line, or with the stages' policies several
};

/// A row per plan. `numbers` are shown before them.
PlanTable plan_table(std::vector<ShownPlan> const& plans,
                     std::vector<std::size_t> const& numbers,
                     TableStyle const& style);

/// The parts of legends in one paragraph, each once.
std::string legend_text(std::vector<std::string> const& parts);

}  // namespace stagecraft
