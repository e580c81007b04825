#pragma once

#include <functional>
#include <map>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/calibration/measurement.hpp"
#include "libexec/executor/clocks.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/hardware/measured_device.hpp"

namespace stagecraft {

/// Keeps a device busy for so many seconds, or until what it then runs is over, and waits.
using DeviceLoad = std::function<void(double seconds)>;

/// Forwards and backwards of a layer of a Transformer. A device that runs them has the power and
/// the clock that it has in training. Pre: the backends of `parts` have timelines.
/// \throws std::runtime_error  if a layer takes no time on the device's own clock
DeviceLoad layer_load(ExecutionParts const& parts,
                      MeasurementScale const& scale,
                      Precision precision);

/// Measures products of every form on a grid of shapes, on random numbers. A time is the median of
/// several calls by the stopwatch of `clock`, or on an asynchronous device of several queues of
/// calls, before each of which it runs `load` for at least three times as long. `take` is given
/// each form when it is measured.
void measure_gemm(Backend& backend,
                  Precision precision,
                  MeasurementScale const& scale,
                  VirtualClock const& clock,
                  SteadyMedians& medians,
                  std::function<void(GemmForm, GemmGrid)> const& take,
                  DeviceLoad const& load = {});

/// One run of a kernel: the bytes that it moves according to its op, and its time.
struct KernelSample {
  double bytes = 0;
  double seconds = 0;
};

/// Fits latency + bytes / bandwidth to samples, by least squares of relative errors, with both
/// parts not negative. Pre: there is at least one sample.
KernelCost fit_kernel(std::vector<KernelSample> const& samples);

/// Measures the costs of all kernels but matrix products, on small models of several shapes whose
/// ops the executor runs one by one. Kernels that these models do not have are not in the result.
std::map<OpKind, KernelCost> measure_kernels(ExecutionParts const& parts, Precision precision);

/// The FLOP per second of flash attention, counted as its ops count FLOPs.
struct FlashRates {
  FlopsPerSecond forward;
  FlopsPerSecond backward;
};

/// Measures them on the largest model for the device, whose time is mostly arithmetic.
FlashRates measure_flash(ExecutionParts const& parts, Precision precision);

}  // namespace stagecraft
