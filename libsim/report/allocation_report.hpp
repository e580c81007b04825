#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "libsim/allocator/allocation_replay.hpp"

namespace stagecraft {

/// The result of `stagecraft allocator --json`; fields as PyTorch counts them, in bytes or counts.
nlohmann::ordered_json to_json(AllocationReplay const& replay);

/// The same for people: the counters at the end, then each checkpoint.
std::string allocation_text(AllocationReplay const& replay);

}  // namespace stagecraft
