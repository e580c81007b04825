#pragma once

#include <string>

#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// "t 8, p 8, m 3, d 1, b 1, interleaved, recompute selective"
std::string layout_words(TrainingConfig const& config);

/// How much slower the fastest plan of each other schedule is. Pre: some plan fits.
std::string schedules_text(SearchResult const& result);

}  // namespace stagecraft
