#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// An all-reduce of a few numbers in the host's memory, in rank order, over an exchange of numbers
/// between all processes of the job. All of them call it in the same order, each for its own group.
///
/// `members`: the ranks of the group, in order; this process is one of them. `all_gather` is called
/// once and returns what each process of the job gave it, by rank.
/// \throws std::logic_error  if it is not an all-reduce, or if the members disagree about it.
using AllGatherNumbers =
    std::function<std::vector<std::vector<std::int64_t>>(std::vector<std::int64_t> const& own)>;
void reduce_in_host_memory(Collective const& collective,
                           std::vector<int> const& members,
                           AllGatherNumbers const& all_gather);

}  // namespace stagecraft
