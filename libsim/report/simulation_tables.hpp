#pragma once

#include <string>

#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// "174.62 billion parameters"; of smaller models millions or thousands.
std::string parameters_text(ModelConfig const& model);

/// What is run, on what, and how it is cut up; lines.
std::string run_title(TrainingPlan const& plan, System const& system);

/// A simulation for a reader: what was run, how long an iteration takes and where the time of the
/// busiest stage goes, and a line a stage with its memory by category in GiB.
std::string simulation_tables(Simulation const& simulation,
                              TrainingPlan const& plan,
                              System const& system);

}  // namespace stagecraft
