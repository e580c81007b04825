#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libexec/kernels/kernel_context.hpp"

namespace stagecraft {

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

/// Of the sets that this build has kernels for.
enum class InstructionSet : std::uint8_t { baseline, x86_64_v3, x86_64_v4 };

/// The kernels for an instruction set; null where the build or this processor does not have it.
KernelTable const* kernel_table(InstructionSet instructions);

/// The largest set that both have.
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
