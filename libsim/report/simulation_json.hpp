#pragma once

#include <nlohmann/json.hpp>

#include "libsim/engine/simulation.hpp"

namespace stagecraft {

/// The document of `simulate --json`, schema stagecraft.simulation/1, without `config`, which the
/// caller adds. Bytes are integers and per GPU, times seconds, FLOPs of the whole job; what does
/// not apply is null.
nlohmann::ordered_json to_json(Simulation const& simulation, TrainingPlan const& plan);

/// Bytes by category as an object.
nlohmann::ordered_json to_json(CategoryBytes const& bytes);

}  // namespace stagecraft
