#pragma once

#include "libexec/executor/job.hpp"

namespace stagecraft {

/// Runs one rank of a plan alone: its shard for real, communication charged by the parts' prices;
/// see SoloCommunicator. The rank counts the same bytes as among its peers, and its trace has the
/// times of its kernels; loss and gradient norm mean nothing, and an iteration has no bubbles but
/// those of communication.
///
/// Time is virtual, whatever `options` say. The result has this one rank.
/// Pre: 0 <= rank < world_size(plan.config.parallel).
/// \throws std::invalid_argument  without prices; and what execute_on_threads() throws.
Execution execute_solo(TrainingPlan const& plan,
                       int rank,
                       ExecutionParts const& parts,
                       ExecutionOptions const& options);

}  // namespace stagecraft
