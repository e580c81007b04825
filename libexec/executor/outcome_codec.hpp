#pragma once

#include <cstdint>
#include <vector>

#include "libexec/executor/rank_run.hpp"

namespace stagecraft {

/// What a rank leaves behind, without its steps (all ranks have the same), as plain numbers for
/// another process of the same program.
std::vector<std::int64_t> encode(RankOutcome const& outcome);
/// The inverse. \throws std::logic_error  for numbers that encode() does not give.
RankOutcome decode_outcome(std::vector<std::int64_t> const& numbers);

}  // namespace stagecraft
