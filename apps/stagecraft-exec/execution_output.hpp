#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "libexec/executor/job.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// `stagecraft-exec run --json`, schema stagecraft.execution/1; bytes are integers, times seconds,
/// loss is nats per token.
nlohmann::ordered_json to_json(Execution const& execution,
                               TrainingPlan const& plan,
                               std::string const& backend,
                               std::string const& clock);

/// The same for people: steps, then memory of each rank.
std::string execution_tables(Execution const& execution);

/// The buffers that were released later than the last op that used them, at most 20 of them.
/// Pre: lifetimes were checked.
std::string lifetime_text(Execution const& execution);

}  // namespace stagecraft
