#pragma once

#include <nlohmann/json.hpp>

#include "libsim/explain/explanation.hpp"

namespace stagecraft {

/// The document of `explain --json`, schema stagecraft.explanation/1, whose members
/// apps/stagecraft/JSON.md describes. Bytes are integers and per GPU, times are seconds, and what
/// does not apply is null.
nlohmann::ordered_json to_json(Explanation const& explanation, RunConfig const& run);

}  // namespace stagecraft
