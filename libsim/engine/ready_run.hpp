#pragma once

#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// Returns the run as it is simulated: with everything decided that follows from costs or memory
/// (settled()), and with a warning if its system was never compared with measurements.
/// Pre: `run` was checked by its reader.
/// \throws ScheduleError  if settled() does.
RunConfig ready_run(RunConfig run);

}  // namespace stagecraft
