#pragma once

#include <functional>

#include "libexec/comm/communicator.hpp"
#include "libexec/executor/job.hpp"

namespace stagecraft {

/// The results of one rank.
struct RankOutcome {
  std::vector<StepReport> steps;
  RankReport report;
  RankTrace trace;
};

/// Runs all iterations of one rank: everything that a rank's thread or process does.
///
/// Every rank calls `restart` between two barriers, to start the job's clock. An error goes to
/// Communicator::fail() before the rank's tensors are released.
/// \throws MemoryLimitError, ExecutionError  naming the rank; PeerFailure
RankOutcome run_rank(TrainingPlan const& plan,
                     RankId rank,
                     ExecutionParts const& parts,
                     ExecutionOptions const& options,
                     Communicator& communicator,
                     RankClock& clock,
                     std::function<void()> const& restart);

}  // namespace stagecraft
