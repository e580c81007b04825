#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// All-reduces a few numbers in host memory, in rank order, by an exchange between all processes of
/// the job. All processes call it in the same order, each for its own group.
///
/// `members`: the ranks of the group in order, this process among them. `all_gather` is called once
/// and returns the argument of each process, by rank.
/// \throws std::logic_error  if the collective is not an all-reduce, or if the members disagree.
using AllGatherNumbers =
    std::function<std::vector<std::vector<std::int64_t>>(std::vector<std::int64_t> const& own)>;
void reduce_in_host_memory(Collective const& collective,
                           std::vector<RankId> const& members,
                           AllGatherNumbers const& all_gather);

}  // namespace stagecraft
