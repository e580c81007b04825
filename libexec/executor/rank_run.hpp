#pragma once

#include <functional>

#include "libexec/comm/communicator.hpp"
#include "libexec/executor/job.hpp"

namespace stagecraft {

/// What one rank leaves behind.
struct RankOutcome {
  std::vector<StepReport> steps;
  RankReport report;
  RankTrace trace;
};

/// Runs all iterations of one rank; the whole of what a rank's thread or process does.
///
/// `restart` is called by every rank between two barriers, to start the job's clock. What ends the
/// rank goes to Communicator::fail() before its tensors go.
/// \throws MemoryLimitError, ExecutionError  naming the rank; PeerFailure
RankOutcome run_rank(TrainingPlan const& plan,
                     int rank,
                     ExecutionParts const& parts,
                     ExecutionOptions const& options,
                     Communicator& communicator,
                     RankClock& clock,
                     std::function<void()> const& restart);

}  // namespace stagecraft
