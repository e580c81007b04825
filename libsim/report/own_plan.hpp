#pragma once

#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// Refuses a trace whose configuration does not make the plan that the trace names.
/// \throws TraceFileError
void require_own_plan(TraceReader const& trace);

}  // namespace stagecraft
