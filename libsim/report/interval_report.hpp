#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/interval/time_interval.hpp"

namespace stagecraft {

/// The 80 % interval of a simulated iteration.
TimeInterval interval_of(Simulation const& simulation,
                         TrainingConfig const& config,
                         System const& system);

/// Sets `iteration_interval_seconds`, [low, high] or null, and `iteration_interval_reason`, what
/// stands behind it or why nothing does.
void put_interval(nlohmann::ordered_json& json, TimeInterval const& interval);

/// `80 % interval 12.7 to 14.9 s (from ...)`, or why there is none; without the end of a line.
std::string interval_text(TimeInterval const& interval);

/// A line that names the settings of which no measured run was held against a prediction; empty if
/// there are none. See unmeasured_settings().
std::string unmeasured_text(std::vector<std::string> const& settings);

}  // namespace stagecraft
