#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_options.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The policies of all stages; equal neighbours are written once: `0 selective +2; 1-7 selective`.
std::string recompute_text(TrainingConfig const& config);

/// Explains the columns of plan_table(), and the words in them that the plans have.
std::string plan_legend(SearchResult const& result);

/// All indices of a list of plans.
std::vector<std::size_t> numbers_of(std::vector<FoundPlan> const& plans);

/// The fastest and the smallest plan of each family of a front, by their numbers.
std::vector<std::size_t> ends_of_families(std::vector<FoundPlan> const& front);

/// A row per plan of `plans` that `shown` names by its index. A line above says what all of these
/// plans have in common; a recompute policy for which a row of `width` columns has no room is on a
/// line below its row.
std::string plan_table(std::vector<FoundPlan> const& plans,
                       std::vector<std::size_t> const& shown,
                       PlanOptions const& options,
                       int width);

}  // namespace stagecraft
