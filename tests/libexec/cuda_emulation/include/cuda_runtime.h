#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"

/// What kernels are written with, for a C++ compiler. ../emulation.hpp says how they run.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// shared_memory.ld collects them: they are the only such variables of a .cu file.
#define __shared__ static

// One block runs at a time in a process, and one of its threads at a time.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

namespace stagecraft::emulation {

/// An argument that is a pointer to a kernel's data.
using Pointers = std::vector<void const*>;

/// The bytes of each argument, as parameters of a kernel lie in memory.
using ArgumentBytes = std::vector<std::vector<std::byte>>;

/// \param signature  ends in the kernel's parameter types, as the compiler spells them
cudaError_t enqueue_kernel(cudaLaunchConfig_t const& config,
                           void const* kernel,
                           char const* signature,
                           Pointers const& pointers,
                           ArgumentBytes arguments,
                           std::function<void()> thread);

/// Allows launches of a kernel more dynamic shared memory than every kernel may have.
cudaError_t allow_shared_memory(void const* kernel, int bytes);

/// What the running launch asked for. It holds bytes of 0xFF when a block starts.
void* dynamic_shared_memory();
#define DYNAMIC_SHARED_MEMORY (::stagecraft::emulation::dynamic_shared_memory())

/// Waits for all threads of a warp; returns what thread `lane + offset` (or as `kind` has it) gave.
enum class ShuffleKind { exclusive_or, down, up, index };
unsigned long long exchange(ShuffleKind kind,
                            unsigned mask,
                            unsigned long long bits,
                            int operand,
                            int width,
                            std::source_location const& where);

template <typename T>
T shuffle(ShuffleKind kind,
          unsigned mask,
          T value,
          int operand,
          int width,
          std::source_location const& where) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "a shuffle moves one number");
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(kind, mask, bits, operand, width, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace stagecraft::emulation

/// Lanes of a warp meet at shuffles here, which is where they read what others have.
inline void __syncwarp(unsigned /*mask*/ = 0xFFFFFFFFU) {}

/// Waits for all threads of the block.
void __syncthreads(std::source_location const& where = std::source_location::current());

template <typename T>
T __shfl_xor_sync(unsigned mask,
                  T value,
                  int lane_mask,
                  int width = warpSize,
                  std::source_location const& where = std::source_location::current()) {
  using namespace stagecraft::emulation;
  return shuffle(ShuffleKind::exclusive_or, mask, value, lane_mask, width, where);
}

template <typename T>
T __shfl_down_sync(unsigned mask,
                   T value,
                   unsigned delta,
                   int width = warpSize,
                   std::source_location const& where = std::source_location::current()) {
  using namespace stagecraft::emulation;
  return shuffle(ShuffleKind::down, mask, value, static_cast<int>(delta), width, where);
}

template <typename T>
T __shfl_up_sync(unsigned mask,
                 T value,
                 unsigned delta,
                 int width = warpSize,
                 std::source_location const& where = std::source_location::current()) {
  using namespace stagecraft::emulation;
  return shuffle(ShuffleKind::up, mask, value, static_cast<int>(delta), width, where);
}

template <typename T>
T __shfl_sync(unsigned mask,
              T value,
              int source_lane,
              int width = warpSize,
              std::source_location const& where = std::source_location::current()) {
  using namespace stagecraft::emulation;
  return shuffle(ShuffleKind::index, mask, value, source_lane, width, where);
}

template <typename T>
T __ldg(T const* address) {
  return *address;
}

inline float rsqrtf(float x) { return 1.F / std::sqrt(x); }
inline double rsqrt(double x) { return 1. / std::sqrt(x); }

template <typename T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
template <typename T>
cudaError_t cudaMallocHost(T** memory, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(memory), bytes);
}

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute /*attribute*/, int value) {
  return stagecraft::emulation::allow_shared_memory(reinterpret_cast<void const*>(kernel), value);
}

template <typename... ExpTypes, typename... ActTypes>
cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* config,
                               void (*kernel)(ExpTypes...),
                               ActTypes&&... args) {
  std::tuple<std::remove_cv_t<ExpTypes>...> arguments{std::forward<ActTypes>(args)...};
  stagecraft::emulation::Pointers pointers;
  stagecraft::emulation::ArgumentBytes bytes;
  auto const collect = [&](auto const& argument) {
    auto const* const first = reinterpret_cast<std::byte const*>(&argument);
    bytes.emplace_back(first, first + sizeof argument);
    if constexpr (std::is_pointer_v<std::decay_t<decltype(argument)>>) pointers.push_back(argument);
  };
  std::apply([&](auto const&... all) { (collect(all), ...); }, arguments);
  return stagecraft::emulation::enqueue_kernel(
      *config, reinterpret_cast<void const*>(kernel), __PRETTY_FUNCTION__, pointers,
      std::move(bytes),
      [kernel, arguments = std::move(arguments)] { std::apply(kernel, arguments); });
}
