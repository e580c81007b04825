#pragma once

#include <functional>

#include "libexec/backends/backend.hpp"
#include "libsim/hardware/measured_device.hpp"

namespace stagecraft {

/// Times products of every form on a grid of shapes, on random numbers; the median of several
/// calls. `on_shape` is called before each, with the number done and of all.
std::map<GemmForm, GemmGrid> measure_gemm(Backend& backend,
                                          Precision precision,
                                          std::function<void(int, int)> const& on_shape);

}  // namespace stagecraft
