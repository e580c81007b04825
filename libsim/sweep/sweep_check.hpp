#pragma once

#include <string>
#include <vector>

#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// Looks for values that no point can have, at points spread evenly over the sweep: at a few
/// hundred a value at most, whatever the size of the sweep. Where a value has more points than
/// that, and fails at all that were looked at, that is a warning only. \return warnings, each with
/// its place
/// \throws ConfigError  naming each value that fails at every point with it, or why no point at all
///     is possible
std::vector<std::string> check_sweep(Sweep const& sweep);

/// What simulating a point takes a thread, from a third of a second's worth of points spread over
/// the sweep; 0 where none was found that meets the conditions.
double seconds_per_point(Sweep const& sweep);

}  // namespace stagecraft
