#pragma once

#include <span>
#include <vector>

#include "libsim/search/candidate.hpp"
#include "libsim/search/recompute_choice.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/stage_facts.hpp"
#include "libsim/search/stage_moments.hpp"
#include "libsim/search/time_bound.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The run of an arrangement with these policies: one for all stages, or one per stage.
TrainingConfig config_with(SearchRequest const& request,
                           Arrangement const& arrangement,
                           std::span<PolicyCode const> codes,
                           Sharding sharding);

/// Appends the plans of one arrangement, the last of `found`, and one kind of optimizer: all
/// policies that stages may share, and what stages choose. `made` is what all of them have in
/// common, `room` what a stage may hold by counted bytes.
void append_policies(SearchRequest const& request,
                     RecomputeChoices const& choices,
                     std::vector<StageMoments> const& moments,
                     MessageTimes const& messages,
                     std::vector<StageFacts> const& facts,
                     Bytes room,
                     Candidate const& made,
                     Candidates& found);

}  // namespace stagecraft
