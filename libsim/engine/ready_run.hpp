#pragma once

#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// A run as it is simulated: with what follows from costs or memory decided (settled()), and the
/// warning for a system that was never compared with measurements.
/// Pre: `run` was checked by its reader.
/// \throws ScheduleError  if settled() does.
RunConfig ready_run(RunConfig run);

}  // namespace stagecraft
