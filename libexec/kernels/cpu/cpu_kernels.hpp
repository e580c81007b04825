#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "libexec/kernels/cpu/kernel_table.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libexec/kernels/kernel_context.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The options of a rank's CPU kernels.
struct CpuKernelOptions {
  GemmKind gemm = GemmKind::openblas;
  /// The threads of the rank's worker pool. OpenBLAS gets the same number; it is a setting of the
  /// process, so all ranks of a process must have the same.
  int threads = 1;
  InstructionSet instructions = best_instruction_set();
};

/// The CPU kernels of one rank: everything that op programs compute, except what an executor does
/// itself (loading tokens and labels, collectives, waiting).
///
/// This folder has one source per family of op kinds, compiled once per instruction set
/// (kernel_table.hpp). Operands are checked (operand_checks.hpp), then the op kind's function runs.
///
/// Results do not depend on the number of threads, except that OpenBLAS may sum in another order.
/// Kernels allocate no heap memory beyond the workspace, which is allocated once; OpenBLAS has its
/// own packing buffers, whose size depends on its build, not on the operands.
///
/// One thread at a time may call run().
class CpuKernels {
 public:
  /// \throws std::invalid_argument  if there is less than one thread, or if the processor or the
  ///         build lacks the instructions.
  /// \throws std::runtime_error  as require_threaded_openblas(), unless GEMMs are plain.
  CpuKernels(KernelNeeds const& needs, CpuKernelOptions const& options);

  /// Runs one kernel to its end.
  /// \throws std::logic_error  naming the op kind, if operands do not fit together, or if the kind
  ///         has no kernel.
  void run(KernelCall const& call);

  /// The scratch space that one object allocates, independent of the model's sizes. `types` as in
  /// KernelNeeds.
  static Bytes workspace(std::span<ElementType const> types, int threads);

 private:
  struct FreeAligned {
    void operator()(std::byte* memory) const;
  };

  KernelTable const* table_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<std::byte, FreeAligned> workspace_;
  KernelContext context_;
};

}  // namespace stagecraft
