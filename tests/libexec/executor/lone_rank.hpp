#pragma once

#include "libexec/executor/job.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// Runs one rank of a plan alone on the CPU, with synthetic tokens.
Execution execute_alone(TrainingPlan const& plan,
                        RankId rank,
                        CommunicationCosts const& costs,
                        ExecutionOptions const& options = {});

}  // namespace stagecraft
