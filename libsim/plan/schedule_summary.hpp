#pragma once

#include <cstddef>
#include <string>

#include "libsim/plan/pipeline_schedule.hpp"

namespace stagecraft {

/// The computations of a stage in issue order as text, each as <part><microbatch>.<chunk>: "F0.0
/// F1.0 B0.0".
std::string order_text(PipelineSchedule const& schedule, std::size_t stage);

/// The largest number of chunk passes in flight on a stage: forwards minus backwards, right after a
/// forward. Each holds its activations.
int in_flight_chunks(PipelineSchedule const& schedule, std::size_t stage);

}  // namespace stagecraft
