#pragma once

#include <string>

#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// The policies of all stages; equal neighbours are written once: `0 selective +2; 1-7 selective`.
std::string recompute_text(TrainingConfig const& config);

/// `even`, or the layers of the first and the last stage: `11..11`.
std::string layout_text(TrainingConfig const& config);

/// What these words mean, as far as plans of the result have them; empty if none needs it.
std::string words_legend(SearchResult const& result);

}  // namespace stagecraft
