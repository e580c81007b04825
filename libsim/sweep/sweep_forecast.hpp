#pragma once

#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// How many points a second `jobs` threads simulate, measured for less than a second; 0 if no
/// point was found that meets the conditions.
///
/// As in the sweep itself, the threads run side by side and take batches of neighbouring points,
/// which have much in common; the batches are spread evenly over the sweep. Each is simulated
/// twice, and the second time counts: in a sweep, what points have in common is nearly always known
/// by then.
double points_per_second(Sweep const& sweep, int jobs);

}  // namespace stagecraft
