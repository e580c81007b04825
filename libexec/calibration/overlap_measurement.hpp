#pragma once

#include "libexec/backends/backend.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The fraction of their speed that matrix products lose while the device also copies within its
/// memory, on another stream.
/// Pre: the backend's device is a CUDA device.
double measure_overlap_slowdown(Backend& backend, Precision precision);

/// The bytes per second, read and written, of copies within the device that are larger than its
/// caches. Pre: the backend's device is a CUDA device.
BytesPerSecond measure_copy_bandwidth(Backend& backend, Precision precision);

}  // namespace stagecraft
