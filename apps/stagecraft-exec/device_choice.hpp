#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/executor/job.hpp"
#include "libexec/kernels/cpu_kernels.hpp"

namespace stagecraft {

/// What a command runs on.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::cpu;
  int ordinal = 0;                            ///< of a GPU
  std::string name;                           ///< as traces give the device
  CpuKernelOptions cpu{};                     ///< on the CPU
  std::shared_ptr<ProductChoices> choices{};  ///< on a GPU, where products are measured

  /// "cpu" or "cuda".
  std::string backend() const { return kind == DeviceKind::cuda ? "cuda" : "cpu"; }
  /// The device's part of what an executor runs with.
  ExecutionParts parts() const;
};

/// --backend, --device, --algorithms, --blas-threads and --gemm.
std::vector<Option> device_options();

/// What they ask for. `auto` takes a GPU where there is one that the kernels run on and nothing is
/// asked for that only the CPU has, and says so on standard error.
/// `cpu_only`: why a GPU may not be taken, as "with --ranks mpi"; empty where it may. `local_rank`:
/// where each process has a GPU of its own, which of its machine's it takes without --device; the
/// only one where it sees no other.
/// \throws CommandLineError
/// \throws DeviceError  where cuda is asked for and is not there.
DeviceChoice choose_device(CommandLine const& line,
                           std::string const& cpu_only = {},
                           std::optional<int> local_rank = std::nullopt);

/// Why a GPU cannot run a model, as `cpu_only` of choose_device() has it; empty where it can.
std::string cpu_only_because_of(ModelConfig const& model);

}  // namespace stagecraft
