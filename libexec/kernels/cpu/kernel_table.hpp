#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libexec/kernels/kernel_context.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/tensor.hpp"

namespace stagecraft {

/// destination[i] = sum, or maximum, of source[i] over the sources in their order, that of the
/// ranks.
///
/// 16-bit elements are summed in float and rounded once. The destination may be one of the sources,
/// but must not overlap one otherwise.
///
/// \throws std::logic_error  if the type is not a floating-point type, or if there is no source.
void reduce_in_rank_order(WorkerPool& pool,
                          Reduction reduction,
                          ElementType type,
                          std::span<void const* const> sources,
                          void* destination,
                          std::int64_t elements);

/// All kernels, compiled for one instruction set.
struct KernelTable {
  std::array<Kernel, op_kind_count> by_kind{};  ///< null if op_kinds.def names no CPU kernel
  void (*reduce)(WorkerPool&,
                 Reduction,
                 ElementType,
                 std::span<void const* const>,
                 void*,
                 std::int64_t) = nullptr;
};

/// The instruction sets for which a build may have kernels.
enum class InstructionSet : std::uint8_t { baseline, x86_64_v3, x86_64_v4 };

/// The kernels for an instruction set; null if the build or this processor does not have it.
KernelTable const* kernel_table(InstructionSet instructions);

/// The largest instruction set that both this build and this processor have.
InstructionSet best_instruction_set();

namespace isa_baseline {
KernelTable const& all_kernels();
}
namespace isa_v3 {
KernelTable const& all_kernels();
}
namespace isa_v4 {
KernelTable const& all_kernels();
}

}  // namespace stagecraft
