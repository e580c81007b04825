#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// Reduces a few numbers in host memory, in rank order, by an exchange between all processes of the
/// job: over all members or, as a prefix_reduce, over those up to this process's stage. Its members
/// then wait for later ones too. All processes call it in the same order, each for its own group.
///
/// `members`: the ranks of the group in order; `member`: the index of this process in it.
/// `all_gather` is called once and returns the argument of each process, by rank.
/// \throws std::logic_error  if the collective is another one, or if the members disagree.
using AllGatherNumbers =
    std::function<std::vector<std::vector<std::int64_t>>(std::vector<std::int64_t> const& own)>;
void reduce_in_host_memory(Collective const& collective,
                           std::vector<RankId> const& members,
                           int member,
                           AllGatherNumbers const& all_gather);

}  // namespace stagecraft
