#pragma once

#include <vector>

#include "tests/libexec/executor/small_runs.hpp"

/// What tests of whole iterations on a CUDA device are written with; all ranks are threads that
/// share it.
namespace stagecraft {

SmallRun on_device(int steps = 1);

/// The relative norm of the difference that two devices may have.
double device_tolerance(Precision precision);

/// ||got - wanted|| / ||wanted||. Pre: as many values.
double relative_distance(WholeTensor const& got, WholeTensor const& wanted);

/// Every tensor's difference has at most `allowed` times its norm.
void require_close(std::vector<WholeTensor> const& got,
                   std::vector<WholeTensor> const& wanted,
                   double allowed);

void require_same_bits(std::vector<WholeTensor> const& a, std::vector<WholeTensor> const& b);

/// Every rank of the plan holds as many bytes on a device as on the CPU, by category; the workspace
/// of kernels apart.
void require_same_memory(TrainingConfig const& config);

}  // namespace stagecraft
