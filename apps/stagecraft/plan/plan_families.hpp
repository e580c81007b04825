#pragma once

#include <cstddef>
#include <vector>

#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// All indices of a list of plans.
std::vector<std::size_t> numbers_of(std::vector<FoundPlan> const& plans);

/// The fastest and the smallest plan of each family of a front, by their numbers.
std::vector<std::size_t> ends_of_families(std::vector<FoundPlan> const& front);

}  // namespace stagecraft
