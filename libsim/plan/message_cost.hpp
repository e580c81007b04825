#pragma once

#include "libsim/units/units.hpp"

namespace stagecraft {

/// The cost of one message between two stages. It arrives latency + occupancy after it starts, and
/// occupies its sender's stream for the occupancy (LogGP: L + o, and G per byte).
/// Source: Alexandrov et al. 1995, LogGP, SPAA '95.
struct MessageCost {
  SimTime latency{0};
  SimTime occupancy{0};
};

}  // namespace stagecraft
