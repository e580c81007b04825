#pragma once

#include <map>
#include <vector>

#include "libexec/executor/job.hpp"
#include "libsim/hardware/measured_device.hpp"

namespace stagecraft {

/// One run of a kernel: the bytes that its op says it moves, and how long it took.
struct KernelSample {
  double bytes = 0;
  double seconds = 0;
};

/// latency + bytes / bandwidth through samples: the line with the least squares of relative
/// errors, of which neither part is negative. Pre: at least one sample.
KernelCost fit_kernel(std::vector<KernelSample> const& samples);

/// Costs of all kernels but matrix products, from the ops of small models of several shapes that
/// the executor runs one by one. What these models do not have is not in the result.
std::map<OpKind, KernelCost> measure_kernels(ExecutionParts const& parts, Precision precision);

/// FLOP a second of flash attention, with the FLOPs that its ops count.
struct FlashRates {
  FlopsPerSecond forward;
  FlopsPerSecond backward;
};

/// Of the largest model that a device is measured by, whose time is mostly arithmetic.
FlashRates measure_flash(ExecutionParts const& parts, Precision precision);

}  // namespace stagecraft
