#pragma once

#include "libexec/executor/job.hpp"

namespace stagecraft {

/// Runs one rank of a plan alone: it computes its shard, and communication takes the durations that
/// `parts` gives; see SoloCommunicator. The rank counts the same bytes as among its peers, and its
/// trace has the times of its kernels. Loss and gradient norm are meaningless, and an iteration has
/// no bubbles except for communication.
///
/// Time is virtual, whatever `options` say. The result has this rank alone.
/// Pre: the job has the rank.
/// \throws std::invalid_argument  if `parts` has no durations of communication; and what
///         execute_on_threads() throws.
Execution execute_solo(TrainingPlan const& plan,
                       RankId rank,
                       ExecutionParts const& parts,
                       ExecutionOptions const& options);

}  // namespace stagecraft
