#pragma once

#include <vector>

#include "tests/libexec/executor/small_runs.hpp"

/// Iterations of small models on a CUDA device, all ranks as threads that share it, held against
/// the CPU.
namespace stagecraft {

inline SmallRun on_device(int steps = 1) {
  return {.options = {.steps = steps}, .device = DeviceKind::cuda};
}

/// Relative norm of the difference that two devices may have.
double device_tolerance(Precision precision);

void require_close(std::vector<WholeTensor> const& got,
                   std::vector<WholeTensor> const& wanted,
                   double allowed);
void require_same_bits(std::vector<WholeTensor> const& a, std::vector<WholeTensor> const& b);

/// Runs an iteration on both, whose ranks count the same bytes, the workspace aside.
void require_same_bytes(TrainingConfig const& config);

}  // namespace stagecraft
