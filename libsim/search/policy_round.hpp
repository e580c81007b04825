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

/// What the plans of one arrangement are enumerated from.
struct PolicySpace {
  SearchRequest const& request;
  RecomputeChoices const& choices;
  std::span<StageMoments const> moments;  ///< empty if the one stage shares units
  MessageTimes const& messages;
  std::vector<StageFacts> const& facts;
  Bytes room;             ///< what a stage may hold by counted bytes
  Candidate const& made;  ///< what all plans have in common, the sharding of optimizer state too
};

/// Appends the plans of the last arrangement of `found`: all policies that stages may share, and
/// what stages choose.
void append_policies(PolicySpace const& space, Candidates& found);

}  // namespace stagecraft
