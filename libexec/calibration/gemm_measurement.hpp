#pragma once

#include <map>

#include "libexec/backends/backend.hpp"
#include "libexec/executor/clocks.hpp"
#include "libsim/hardware/measured_device.hpp"

namespace stagecraft {

/// Times products of every form on a grid of shapes, on random numbers; the median of several
/// calls, by the stopwatch of `clock`.
std::map<GemmForm, GemmGrid> measure_gemm(Backend& backend,
                                          Precision precision,
                                          VirtualClock const& clock);

}  // namespace stagecraft
