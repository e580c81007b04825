#pragma once

#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// A run as it is simulated: numbers in the place of `store_microbatches: auto`, which depend on
/// the system's memory, and the warning for a system that was never compared with measurements.
/// Pre: `run` was checked by its reader.
RunConfig ready_run(RunConfig run);

}  // namespace stagecraft
