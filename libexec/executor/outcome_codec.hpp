#pragma once

#include <cstdint>
#include <vector>

#include "libexec/executor/rank_run.hpp"

namespace stagecraft {

/// Encodes a rank's outcome as numbers for another process of the same program, without its steps,
/// which are the same on all ranks.
std::vector<std::int64_t> encode(RankOutcome const& outcome);
/// The inverse. \throws std::logic_error  if encode() cannot have made the numbers.
RankOutcome decode_outcome(std::vector<std::int64_t> const& numbers);

}  // namespace stagecraft
