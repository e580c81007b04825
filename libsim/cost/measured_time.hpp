#pragma once

#include <optional>

#include "libsim/hardware/measured_device.hpp"
#include "libsim/program/op.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Time of an op by measurements on the device; nullopt if its kind or type was not measured.
///
/// Matrix products: the rate is interpolated linearly in the logarithms of m, n and k between the
/// shapes of the grid; beyond the grid it is that of the nearest shape. A batch in a form that was
/// not measured as a batch takes its products one by one. Other kernels: latency + traffic /
/// bandwidth.
std::optional<Seconds> measured_time(MeasuredDevice const& measured, Op const& op);

}  // namespace stagecraft
