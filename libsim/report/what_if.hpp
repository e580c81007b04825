#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "libsim/engine/simulation.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// A run that was simulated, for a what-if.
struct SimulatedRun {
  std::string name;  ///< its file, and what was overridden
  RunConfig const* config = nullptr;
  Simulation const* simulation = nullptr;
};

/// A table of a base line, of a run beside it, and of their difference: rates, memory of the
/// fullest stage, the time of the busiest stage. Keys whose values differ are listed first.
std::string what_if_table(SimulatedRun const& base, SimulatedRun const& run);

/// The member `against` of a simulation's document: the base line's file, configuration and main
/// results, the keys that differ, and by how much the run is above it.
nlohmann::ordered_json what_if_json(SimulatedRun const& base, SimulatedRun const& run);

}  // namespace stagecraft
