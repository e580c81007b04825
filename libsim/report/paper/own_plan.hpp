#pragma once

#include "libsim/plan/training_plan.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// The plan that the configuration of a trace makes, whether or not the trace names it.
/// \throws ConfigError  if the configuration cannot be read.
TrainingPlan plan_of_configuration(TraceReader const& trace);

/// Refuses a trace whose configuration does not make the plan that the trace names.
/// \throws TraceFileError
void require_own_plan(TraceReader const& trace);

}  // namespace stagecraft
