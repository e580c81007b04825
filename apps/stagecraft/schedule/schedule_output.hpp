#pragma once

#include <nlohmann/json.hpp>

#include "apps/stagecraft/schedule/asked_schedule.hpp"

namespace stagecraft {

/// The schedule as `schedule --json` prints it.
nlohmann::ordered_json to_json(AskedSchedule const& asked);

}  // namespace stagecraft
