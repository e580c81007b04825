#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/stagecraft/plan/plan_options.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The result as `plan --json` prints it. `seconds`: wall time of the search.
nlohmann::ordered_json to_json(SearchResult const& result,
                               PlanOptions const& options,
                               double seconds);

/// The result as text: the fastest plans, the Pareto front of time and memory, days and cost, and
/// Megatron-LM's flags of the best plan, in lines of `width` columns, but for flags, and for tables
/// that need more. Pre: some plan fits.
std::string plan_tables(SearchResult const& result,
                        PlanOptions const& options,
                        double seconds,
                        int width);

/// Which plans were left out because of what their devices hold. Pre: some were.
std::string run_out_text(SearchResult const& result, PlanOptions const& options);

}  // namespace stagecraft
