#pragma once

#include "libsim/search/candidate_source.hpp"
#include "libsim/search/stage_filling.hpp"

namespace stagecraft {

/// The run that a candidate begins with. Windows store as many microbatches as counted bytes allow.
/// `room`: what a stage may hold by them.
TrainingConfig first_run(SearchRequest const& request,
                         Candidates const& candidates,
                         Candidate const& plan,
                         Bytes room);

/// What the stages of a candidate of kind per_stage or window may have, what they begin with first.
StageFilling first_filling(SearchRequest const& request,
                           CandidateSource& source,
                           Candidates const& candidates,
                           Candidate const& plan);

}  // namespace stagecraft
