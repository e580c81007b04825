#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/stagecraft/plan/plan_options.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The probability that the best plan is faster than another one, both run on this machine.
double probability_best(FoundPlan const& best, FoundPlan const& other, PlanOptions const& options);

/// How sure it must be that the best plan is faster than another one for them to be separable.
inline constexpr double separable_probability = 0.8;

/// The plans that may be faster than the best, by their index in the result.
std::vector<std::size_t> rivals_of(SearchResult const& result, PlanOptions const& options);

/// The plans that may be as fast as the best, and itself, by ascending peak memory: indices.
std::vector<std::size_t> near_ties(SearchResult const& result, PlanOptions const& options);

/// The one measurement that would say most: of the rival of which it is least separable_probability
/// that it is slower, beside the best; without rivals of the best, which replaces the bias of all
/// times.
nlohmann::ordered_json next_measurement(SearchResult const& result, PlanOptions const& options);

}  // namespace stagecraft
