#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/stagecraft/plan_options.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The result as a person reads it: the fastest plans, the front of time against memory, days and
/// money, Megatron-LM's flags of the best. Pre: some plan fits.
std::string plan_tables(SearchResult const& result, PlanOptions const& options, double seconds);

/// The result as `plan --json` prints it. `seconds`: wall time of the search.
nlohmann::ordered_json to_json(SearchResult const& result,
                               PlanOptions const& options,
                               double seconds);

/// What came closest to fitting and by how much it does not. Pre: no plan fits.
std::string near_miss_text(SearchResult const& result, PlanOptions const& options);

}  // namespace stagecraft
