#pragma once

#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/recorded_task.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The rank that stands for a stage in a trace: what it did, from the stage's issue entries and
/// when they happened, and what the fullest rank of the stage held.
/// `held`: the programs of that rank (RankPrograms).
RankTrace record_stage(CostedPlan const& costed,
                       Programs const& held,
                       RecordedTimes const& times,
                       TraceVocabulary const& vocabulary,
                       StageId stage,
                       TraceDetail detail);

}  // namespace stagecraft
