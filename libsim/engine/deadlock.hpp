#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libsim/engine/timeline.hpp"

namespace stagecraft {

/// Where a rank stands that cannot go on.
struct BlockedRank {
  std::int32_t entry = 0;   ///< of its issue order; its size if the rank is done
  bool has_joined = false;  ///< it waits in a group
  /// By channel: whether messages that the rank has posted, or is to receive, are still to come.
  std::vector<bool> const* is_missing = nullptr;
};

/// Who waits for what, one line per rank that is not done.
std::string describe_deadlock(TimelineInput const& input, std::span<BlockedRank const> ranks);

}  // namespace stagecraft
