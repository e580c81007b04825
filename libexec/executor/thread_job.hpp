#pragma once

#include "libexec/executor/job.hpp"

namespace stagecraft {

/// Runs a plan with every rank of the job as a thread of this process.
/// \throws MemoryLimitError  if a rank does not fit; names the rank.
/// \throws DataError, OutputError  if a hook cannot read or write its files.
/// \throws ExecutionError  if a rank fails otherwise.
Execution execute_on_threads(TrainingPlan const& plan,
                             ExecutionParts const& parts,
                             ExecutionOptions const& options);

}  // namespace stagecraft
