#pragma once

#include "libsim/units/units.hpp"

namespace stagecraft {

/// What one message between two stages costs: it arrives latency + occupancy after it starts, and
/// holds its sender's stream for the occupancy (LogGP: L + o, and G per byte).
/// Source: Alexandrov et al. 1995, LogGP, SPAA '95.
struct MessagePrice {
  SimTime latency{0};
  SimTime occupancy{0};
};

}  // namespace stagecraft
