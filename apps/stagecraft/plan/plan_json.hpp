#pragma once

#include <nlohmann/json.hpp>

#include "apps/stagecraft/plan/plan_options.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The result as `plan --json` prints it. `seconds`: wall time of the search.
nlohmann::ordered_json to_json(SearchResult const& result,
                               PlanOptions const& options,
                               double seconds);

}  // namespace stagecraft
