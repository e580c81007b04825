#pragma once

#include <string>

#include "libsim/engine/simulation.hpp"

namespace stagecraft {

/// One line on the sharded units of a run: the size of the largest one once gathered, how many
/// gathers and reductions a rank runs in an iteration, and how much of their time no computation
/// hides. Empty if no parameters are shared.
std::string units_text(Simulation const& simulation, TrainingPlan const& plan);

}  // namespace stagecraft
