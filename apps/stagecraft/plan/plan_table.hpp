#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"

namespace stagecraft {

/// All indices of a list of plans.
std::vector<std::size_t> numbers_of(std::vector<FoundPlan> const& plans);

/// The fastest and the smallest plan of each family of a front, by their numbers.
std::vector<std::size_t> ends_of_families(std::vector<FoundPlan> const& front);

/// What a table of plans shows.
struct TableStyle {
  int width = 100;  ///< in columns
  /// Whether the policies of all stages are shown, below a row that has no room for them. If not,
  /// a row has what they have in common, and columns that say least are left out until it fits.
  bool has_stages = false;
  bool is_comparison = false;  ///< of several clusters, whose names are columns
  bool is_front = false;       ///< of time against memory, which is never left out
};

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
