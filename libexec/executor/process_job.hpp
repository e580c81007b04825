#pragma once

#include "libexec/comm/job_session.hpp"
#include "libexec/executor/job.hpp"

namespace stagecraft {

/// Runs a plan with every rank of the job as a process of its own. All processes call it.
///
/// Rank 0 returns what execute_on_threads() returns; the others return the steps alone. The clock
/// is rank 0's wall clock, which the others follow. A rank that fails ends all processes through
/// JobSession::fail(), so failures during the run are not thrown.
/// \throws std::invalid_argument  if there is not one process per rank, or if time is virtual.
Execution execute_on_processes(TrainingPlan const& plan,
                               ExecutionParts const& parts,
                               ExecutionOptions const& options,
                               JobSession& session,
                               MakeProcessWorld const& make_world);

}  // namespace stagecraft
