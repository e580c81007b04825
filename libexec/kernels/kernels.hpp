#pragma once

#include <cstdint>
#include <span>

#include "libexec/kernels/kernel_context.hpp"

/// The CPU kernel of each op kind for which op_kinds.def names one: a function of the same name.
/// Kernels are compiled once per instruction set (CMakeLists.txt), each time in another namespace.
///
/// \throws std::logic_error  naming the op kind, if operands do not fit together.
namespace stagecraft::STAGECRAFT_ISA {

#define STAGECRAFT_DECLARE_cpu(kind) \
  void kind(KernelContext const& context, KernelCall const& call);
#define STAGECRAFT_DECLARE_none(kind)
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  STAGECRAFT_DECLARE_##cpu_kernel(kind)
#include "libsim/program/op_kinds.def"
#undef STAGECRAFT_DECLARE_cpu
#undef STAGECRAFT_DECLARE_none

/// What reduce_in_rank_order() promises.
void reduce(WorkerPool& pool,
            Reduction reduction,
            ElementType type,
            std::span<void const* const> sources,
            void* destination,
            std::int64_t elements);

}  // namespace stagecraft::STAGECRAFT_ISA
