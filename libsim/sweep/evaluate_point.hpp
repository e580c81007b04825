#pragma once

#include "libsim/sweep/sweep.hpp"
#include "libsim/sweep/sweep_columns.hpp"

namespace stagecraft {

/// Simulates a point; the numbers are those of `simulate` for its run. A point whose run is
/// impossible gives a row that says why. Threads may share the sweep.
SweepRow evaluate_point(Sweep const& sweep, std::int64_t point);

}  // namespace stagecraft
