#pragma once

#include <nlohmann/json.hpp>

#include "libsim/engine/simulation.hpp"

namespace stagecraft {

/// The document of `simulate --json`, schema stagecraft.simulation/1, without `config`, which the
/// caller adds. Bytes are integers and per GPU, times are in seconds, FLOPs are those of the whole
/// job; a value that does not apply is null.
nlohmann::ordered_json to_json(Simulation const& simulation, TrainingPlan const& plan);

/// An object with the seconds of each part of an iteration.
nlohmann::ordered_json to_json(Breakdown const& breakdown);

/// An object with the bytes of each category.
nlohmann::ordered_json to_json(CategoryBytes const& bytes);

}  // namespace stagecraft
