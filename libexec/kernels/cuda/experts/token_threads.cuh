#pragma once

#include <cstdint>

#include "libexec/kernels/cuda/launch.cuh"

/// Kernels of routers, in which a thread works on a token: what it reads and writes is a small part
/// of a layer's, and choices of experts follow the CPU's code.
namespace stagecraft {

inline constexpr int token_threads = 32;

/// Calls body(token) for each of the tokens.
template <typename Body>
__global__ void __launch_bounds__(token_threads)
    for_each_token(Body const body, std::int64_t first, std::int64_t count) {
  std::int64_t const i = std::int64_t{blockIdx.x} * token_threads + threadIdx.x;
  if (i < count) body(first + i);
}

template <typename Body>
void launch_for_tokens(cudaStream_t stream,
                       std::int64_t first,
                       std::int64_t count,
                       Body const& body) {
  if (count == 0) return;
  launch(for_each_token<Body>, static_cast<unsigned>((count + token_threads - 1) / token_threads),
         token_threads, stream, body, first, count);
}

}  // namespace stagecraft
