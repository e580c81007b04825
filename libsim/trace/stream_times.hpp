#pragma once

#include <cstdint>

#include "libsim/trace/known_names.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// What a rank's time goes to, in ps, by the rows of a trace. The parts do not overlap: what is
/// left of an iteration is the bubble, in which the rank waits for others.
struct StreamTimes {
  std::int64_t end = 0;            ///< of the last row
  std::int64_t computing = 0;      ///< its compute stream, but for the rows of data_parallel
  std::int64_t transfer = 0;       ///< it does not compute, and one of its messages is in flight
  std::int64_t data_parallel = 0;  ///< neither, and gradients or parameters travel
};

StreamTimes stream_times(RankTrace const& rank, KnownNames const& names);

}  // namespace stagecraft
