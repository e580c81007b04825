#pragma once

#include <string>

#include "apps/stagecraft/plan/plan_options.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The best plan that the flags of the software stack can say, and what it loses; empty if the
/// stack is not one of Megatron-LM, or if that is the best of all. Pre: some plan fits.
std::string launchable_text(SearchResult const& result, PlanOptions const& options);

/// How much slower the fastest plan of each other schedule is. Pre: some plan fits.
std::string schedules_text(SearchResult const& result);

}  // namespace stagecraft
