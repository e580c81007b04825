#pragma once

#include <cstdint>

#include "libsim/engine/recorded_task.hpp"
#include "libsim/engine/recorded_times.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// What a stage did, from its issue entries and when they happened, and what its fullest rank held.
/// `held`: the plan of that rank (PlanOfRank), whose programs are as those of the costed plan but
/// for sizes.
RankTrace record_rank(CostedPlan const& costed,
                      TrainingPlan const& held,
                      RecordedTimes const& times,
                      TraceVocabulary const& vocabulary,
                      std::int32_t rank,
                      TraceDetail detail);

}  // namespace stagecraft
