#pragma once

#include <string>
#include <vector>

#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// Looks for values that no point can have, at points spread evenly over the sweep: at most a few
/// hundred per value, whatever the size of the sweep. If a value has more points than that and
/// fails at all that were examined, that is only a warning. \return the warnings, each with its
/// place
///
/// \throws ConfigError  naming each value that fails at every point with it, or why no point at all
///     is possible
std::vector<std::string> check_sweep(Sweep const& sweep);

}  // namespace stagecraft
