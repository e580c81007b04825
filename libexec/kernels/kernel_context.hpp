#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libexec/kernels/kernel_call.hpp"
#include "libsim/host/worker_pool.hpp"

// The namespace of the kernels of one instruction set, which CMakeLists.txt defines.
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

/// Calls body(begin, end) for ranges that together are [0, rows), concurrently if there is enough
/// work. `row_cost`: elements per row.
template <typename Body>
void for_row_ranges(WorkerPool& pool, std::int64_t rows, std::int64_t row_cost, Body const& body) {
  // 16 Ki elements take about 10 us, as long as waking a thread.
  constexpr std::int64_t elements_per_task = 16384;
  std::int64_t const cost = std::max<std::int64_t>(row_cost, 1);
  std::int64_t const rows_per_task = std::max<std::int64_t>(elements_per_task / cost, 1);
  std::int64_t const tasks = (rows + rows_per_task - 1) / rows_per_task;
  pool.run(tasks, [&](std::int64_t task, int) {
    std::int64_t const begin = task * rows_per_task;
    body(begin, std::min(begin + rows_per_task, rows));
  });
}

// How kernels use the workspace, whose size is constant and which each call divides anew.

/// Elements of one tile of a worker, independent of the model.
inline constexpr std::int64_t tile_elements = std::int64_t{64} * 256;
/// The most tiles that a worker needs (in the backward of flash attention).
inline constexpr std::int64_t tiles_per_worker = 8;

/// Sides of the float blocks that 16-bit matrices are multiplied in: C [m, n] += A [m, k] B [k, n].
inline constexpr std::int64_t widened_m = 512;
inline constexpr std::int64_t widened_n = 1024;
inline constexpr std::int64_t widened_k = 512;
inline constexpr std::int64_t widened_elements =
    widened_m * widened_k + widened_k * widened_n + widened_m * widened_n;

/// Allocates pieces of a worker's part of the workspace, one after another.
template <typename C>
class Scratch {
 public:
  Scratch(KernelContext const& context, int worker)
      : next_{reinterpret_cast<C*>(context.workspace.data()) +
              worker * tiles_per_worker * tile_elements} {}

  /// Pre: all pieces together fit into tiles_per_worker * tile_elements.
  C* take(std::int64_t elements) {
    C* const piece = next_;
    next_ += elements;
    return piece;
  }

 private:
  C* next_;
};

}  // namespace stagecraft
