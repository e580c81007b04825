#pragma once

#include <cstdint>

#include "libsim/engine/recorded_task.hpp"
#include "libsim/engine/recorded_times.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// What one pipeline rank did, from its steps and when they happened.
RankTrace record_rank(CostedPlan const& costed,
                      RecordedTimes const& times,
                      TraceVocabulary const& vocabulary,
                      std::int32_t rank,
                      TraceDetail detail);

}  // namespace stagecraft
