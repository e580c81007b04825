#include "libexec/calibration/overlap_measurement.hpp"
#include "libexec/kernels/cuda/device_error.hpp"

// The functions that need CUDA, in a build without it.

namespace stagecraft {

double measure_overlap_slowdown(Backend& /*backend*/, Precision /*precision*/) {
  throw DeviceError{"built without CUDA"};
}

BytesPerSecond measure_copy_bandwidth(Backend& /*backend*/, Precision /*precision*/) {
  throw DeviceError{"built without CUDA"};
}

}  // namespace stagecraft
