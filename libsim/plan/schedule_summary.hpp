#pragma once

#include <cstddef>
#include <string>

#include "libsim/plan/pipeline_schedule.hpp"

namespace stagecraft {

/// The computations of a stage as text: "F0.0 F1.0 B0.0", a part of
/// <microbatch>.<chunk>, in issue order.
std::string order_text(PipelineSchedule const& schedule, std::size_t stage);

/// Most chunks in flight on a stage: forwards done minus backwards done, right after a forward.
/// Each holds its activations.
int in_flight_chunks(PipelineSchedule const& schedule, std::size_t stage);

}  // namespace stagecraft
