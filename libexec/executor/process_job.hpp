#pragma once

#include "libexec/comm/job_session.hpp"
#include "libexec/executor/job.hpp"

namespace stagecraft {

/// Runs a plan with every rank of the job as a process of its own; called by all of them.
///
/// Rank 0 returns what execute_on_threads() does; the others return the steps alone. The clock is
/// the wall's: rank 0's, which the others follow. A rank that fails ends all processes through
/// JobSession::fail(), so nothing that happens on the way is thrown.
/// \throws std::invalid_argument  where processes are not as many as ranks, or time is virtual.
Execution execute_on_processes(TrainingPlan const& plan,
                               ExecutionParts const& parts,
                               ExecutionOptions const& options,
                               JobSession& session,
                               MakeProcessWorld const& make_world);

}  // namespace stagecraft
