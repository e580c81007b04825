#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libexec/kernels/kernel_call.hpp"
#include "libsim/host/worker_pool.hpp"

/// The namespace of the kernels of one instruction set, which CMakeLists.txt defines.
#ifndef STAGECRAFT_ISA
#define STAGECRAFT_ISA isa_baseline
#endif

namespace stagecraft {

/// The implementation of matrix products.
enum class GemmKind : std::uint8_t {
  openblas,
  plain,  ///< loops of this library, which sum each element over k in ascending order, so that its
          ///< bits do not depend on how m and n are split over ranks
};

/// What a CPU kernel uses besides its operands.
struct KernelContext {
  int tensor_rank = 0;      ///< index in the tensor group
  int expert_rank = 0;      ///< index in the expert group
  SequencePart sequence{};  ///< the rows of a sequence that the rank has
  GemmKind gemm = GemmKind::openblas;
  WorkerPool* pool = nullptr;
  std::span<std::byte> workspace;  ///< aligned to 64 bytes
};

using Kernel = void (*)(KernelContext const&, KernelCall const&);

}  // namespace stagecraft
