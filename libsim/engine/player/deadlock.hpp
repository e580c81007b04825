#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libsim/engine/player/timeline.hpp"

namespace stagecraft {

/// The point at which a stage is blocked.
struct BlockedStage {
  /// Entry of its issue order; the number of entries if the stage is done.
  std::int32_t entry = 0;
  bool has_joined = false;  ///< whether it waits in a group
  /// Whether one end of a message has been posted and the other one has not, by channel.
  std::vector<bool> const* is_missing = nullptr;
};

/// The text of who waits for what, one line per stage that is not done.
std::string describe_deadlock(TimelineInput const& input, std::span<BlockedStage const> stages);

}  // namespace stagecraft
