#pragma once

#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/recorded_task.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The rank that stands for a stage in a trace: what it did, from the stage's issue entries and
/// when they happened, and what the fullest rank of the stage held.
/// `held`: the plan of that rank (PlanOfRank), whose programs are as those of the costed plan but
/// for sizes.
RankTrace record_stage(CostedPlan const& costed,
                       TrainingPlan const& held,
                       RecordedTimes const& times,
                       TraceVocabulary const& vocabulary,
                       StageId stage,
                       TraceDetail detail);

}  // namespace stagecraft
