#pragma once

#include <nlohmann/json.hpp>

#include "libsim/engine/simulation.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// What a simulation has found, with the interval of the iteration's time: the document of
/// `simulate --json` without `config` and `warnings`.
nlohmann::ordered_json simulation_results(Simulation const& simulation,
                                          TrainingPlan const& plan,
                                          System const& system);

/// The whole document of `simulate --json`, schema stagecraft.simulation/1: the results,
/// the effective configuration and the run's warnings.
/// Pre: `plan` is that of `run`, which ready_run() made.
nlohmann::ordered_json simulation_document(Simulation const& simulation,
                                           TrainingPlan const& plan,
                                           RunConfig const& run);

}  // namespace stagecraft
