#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libsim/engine/player/timeline.hpp"

namespace stagecraft {

/// The point at which a stage is blocked.
struct BlockedStage {
  std::int32_t entry = 0;   ///< of its issue order; its size if the stage is done
  bool has_joined = false;  ///< it waits in a group
  /// By channel: whether one end of a message has been posted and the other one has not.
  std::vector<bool> const* is_missing = nullptr;
};

/// Who waits for what, one line per stage that is not done.
std::string describe_deadlock(TimelineInput const& input, std::span<BlockedStage const> stages);

}  // namespace stagecraft
