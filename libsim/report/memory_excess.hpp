#pragma once

#include <string>

#include "libsim/engine/simulation.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// The stages that do not fit, and how much the fullest of them lacks; empty if all fit.
std::string memory_excess(Simulation const& simulation, RunConfig const& run);

}  // namespace stagecraft
