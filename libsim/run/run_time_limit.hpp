#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// Reports a model whose precision the system has no peak for. `root` is the run file.
void check_precision(RunConfig const& config, ConfigNode const& root);

/// Reports a run whose iteration could take longer than SimTime can count (106 days), by an
/// estimate from above: all bytes over the slowest link, FLOPs at a hundredth of the peak, every
/// latency.
void check_run_time(RunConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
