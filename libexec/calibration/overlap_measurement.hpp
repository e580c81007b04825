#pragma once

#include "libexec/backends/backend.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Fraction of the speed of matrix products that is lost while the device also copies within its
/// memory, on another stream.
/// Pre: the backend's device is CUDA's.
double measure_overlap_slowdown(Backend& backend, Precision precision);

/// Bytes read and written a second by copies within the device that are larger than its caches.
/// Pre: likewise.
BytesPerSecond measure_copy_bandwidth(Backend& backend, Precision precision);

}  // namespace stagecraft
