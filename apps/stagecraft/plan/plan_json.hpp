#pragma once

#include <nlohmann/json.hpp>

#include "apps/stagecraft/plan/plan_answer.hpp"

namespace stagecraft {

/// The answer as `plan --json` prints it.
nlohmann::ordered_json to_json(PlanAnswer const& answer, PlanQuestion const& question);

}  // namespace stagecraft
