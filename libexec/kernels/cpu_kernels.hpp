#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "libexec/kernels/kernel_call.hpp"
#include "libexec/kernels/kernel_context.hpp"
#include "libexec/kernels/kernel_table.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// How the CPU kernels of a rank run.
struct CpuKernelOptions {
  GemmKind gemm = GemmKind::openblas;
  /// Width of the rank's worker pool. Sets OpenBLAS's number of threads too, which is one for the
  /// process: give all ranks of a process the same.
  int threads = 1;
  InstructionSet instructions = best_instruction_set();
};

/// The CPU kernels of one rank: everything that op programs compute, except what an executor does
/// itself (loading tokens and labels, collectives, waiting, the step ops).
///
/// Results do not depend on the number of threads, with one exception: OpenBLAS may sum in another
/// order. Beyond the workspace, allocated once, kernels take no heap memory; OpenBLAS keeps packing
/// buffers of its own, whose size depends on its build, not on the operands.
///
/// One thread at a time may call run().
class CpuKernels {
 public:
  /// \throws std::invalid_argument  for less than one thread, or instructions that the processor or
  /// the build does not have.
  /// \throws std::runtime_error  see require_threaded_openblas(); not for plain GEMMs.
  CpuKernels(KernelNeeds const& needs, CpuKernelOptions const& options);

  /// Runs one kernel to its end.
  /// \throws std::logic_error  naming the op kind, where operands do not fit together, or where the
  /// kind has no kernel.
  void run(KernelCall const& call);

  /// The pool that kernels run on, for optimizer_kernels.hpp and rank_order_reduction.hpp.
  WorkerPool& pool() { return *pool_; }

  /// What one object allocates for scratch space: independent of the model's sizes. `types` as in
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
