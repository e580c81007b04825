#pragma once

#include <vector>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_session.hpp"

namespace stagecraft {

/// An all-reduce of a few numbers in the host's memory, in rank order, through rank 0 of the
/// session. All processes of the job call it in the same order, each for its own group.
///
/// `members`: the ranks of the group, in order; this process is one of them.
/// Pre: an all-reduce in host memory.
/// \throws CommunicationError
/// \throws std::logic_error  where members of a group disagree about it, or not all have come.
void reduce_over_session(JobSession& session,
                         Collective const& collective,
                         std::vector<int> const& members);

}  // namespace stagecraft
