#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libexec/kernels/kernel_call.hpp"
#include "libsim/host/worker_pool.hpp"

/// The name that the kernels of one instruction set are compiled under; given by CMakeLists.txt.
#ifndef STAGECRAFT_ISA
#define STAGECRAFT_ISA isa_baseline
#endif

namespace stagecraft {

/// What multiplies matrices.
enum class GemmKind : std::uint8_t {
  openblas,
  plain,  ///< own loops; each element is summed over k in ascending order, so that its bits do not
          ///< depend on how m and n are split over ranks
};

/// What a kernel has besides its operands.
struct KernelContext {
  int tensor_rank = 0;  ///< place in the tensor group
  GemmKind gemm = GemmKind::openblas;
  WorkerPool* pool = nullptr;
  std::span<std::byte> workspace;  ///< aligned to 64 bytes
};

using Kernel = void (*)(KernelContext const&, KernelCall const&);

}  // namespace stagecraft
