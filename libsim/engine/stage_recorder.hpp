#pragma once

#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/recorded_task.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The trace of the rank that stands for a stage. Its rows are the stage's issue entries at their
/// times; its memory is that of the stage's fullest rank, whose programs (RankPrograms) are `held`.
RankTrace record_stage(CostedPlan const& costed,
                       Programs const& held,
                       RecordedTimes const& times,
                       TraceVocabulary const& vocabulary,
                       StageId stage,
                       TraceDetail detail);

}  // namespace stagecraft
