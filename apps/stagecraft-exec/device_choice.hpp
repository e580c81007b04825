#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/executor/clocks.hpp"
#include "libexec/executor/job.hpp"
#include "libexec/kernels/cpu/cpu_kernels.hpp"
#include "libsim/cost/cost_model.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The device that a command runs on.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::cpu;
  int ordinal = 0;                            ///< of a GPU
  std::string name;                           ///< as traces give the device
  CpuKernelOptions cpu{};                     ///< on the CPU
  std::shared_ptr<ProductChoices> choices{};  ///< on a GPU; null: products are not measured
  std::shared_ptr<CudnnChoice> cudnn{};       ///< on a GPU; null: attention is our kernels'

  /// "cpu" or "cuda".
  std::string backend() const { return kind == DeviceKind::cuda ? "cuda" : "cpu"; }
  /// The parts of an execution that depend on the device.
  ExecutionParts parts() const;
};

/// --backend, --device, --algorithms, --attention, --cudnn, --blas-threads and --gemm.
std::vector<Option> device_options();

/// The device that the options ask for. `auto` takes a GPU, and says so on standard error, if the
/// kernels run on one and no option asks for what only the CPU has.
/// `cpu_only`: the reason why a GPU cannot be used, such as "with --ranks mpi"; empty if it can.
/// `local_rank`: if each process has its own GPU, the number of the GPU that it takes without
/// --device, unless it sees only one.
/// \throws CommandLineError
/// \throws DeviceError  if cuda is asked for and is not available.
DeviceChoice choose_device(CommandLine const& line,
                           std::string const& cpu_only = {},
                           std::optional<int> local_rank = std::nullopt);

/// Why a GPU cannot run a plan, for `cpu_only` of choose_device(); empty if it can.
std::string cpu_only_because_of(TrainingConfig const& config);

/// The durations of communication on a system. The cost model must outlive the object.
class SystemCosts : public CommunicationCosts {
 public:
  explicit SystemCosts(CostModel const& cost) : cost_{cost} {}

  SimTime collective(Op const& op) const override { return cost_.duration(op); }
  MessageCost message(StageId from, StageId to) const override {
    return cost_.message_cost(from, to);
  }

 private:
  CostModel const& cost_;
};

}  // namespace stagecraft
