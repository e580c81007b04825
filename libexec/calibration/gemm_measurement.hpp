#pragma once

#include <map>

#include "libexec/backends/backend.hpp"
#include "libexec/calibration/measurement_scale.hpp"
#include "libexec/executor/clocks.hpp"
#include "libsim/hardware/measured_device.hpp"

namespace stagecraft {

/// Measures products of every form on a grid of shapes, on random numbers. A time is the median of
/// several calls by the stopwatch of `clock`, or on an asynchronous device of several queues of
/// calls, between which it copies memory for half as long as the products take.
std::map<GemmForm, GemmGrid> measure_gemm(Backend& backend,
                                          Precision precision,
                                          MeasurementScale const& scale,
                                          VirtualClock const& clock);

}  // namespace stagecraft
