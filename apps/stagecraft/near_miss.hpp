#pragma once

#include <string>

#include "apps/stagecraft/plan/plan_question.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The plan that comes closest to fitting, and how much memory it lacks. Pre: no plan fits.
std::string near_miss_text(SearchResult const& result, PlanOptions const& options);

/// Which plans were left out because of what their devices hold. Pre: some were.
std::string run_out_text(SearchResult const& result, PlanOptions const& options);

}  // namespace stagecraft
