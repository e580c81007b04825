#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libexec/kernels/kernel_context.hpp"

/// How kernels use the workspace, whose size is constant and which each call divides anew.
namespace stagecraft {

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
