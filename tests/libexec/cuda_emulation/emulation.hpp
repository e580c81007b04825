#pragma once

#include <cstddef>
#include <cstdint>

/// An emulation of the CUDA runtime and cuBLASLt on a CPU, for tests: CUDA sources are compiled as
/// C++ against the headers of include/, and run with their own launches, streams and events.
///
/// What it shows:
/// - Work is done only when somebody waits for some of it, and then in an order that respects
/// nothing
///   but streams and events, and is otherwise drawn from a seed: a missing event gives a wrong
///   result for some seeds.
/// - Barriers and shuffles are places where threads meet. Between them the threads of a block, and
/// the
///   blocks of a grid, run in an order drawn from the seed: a missing barrier gives a wrong result
///   for some seeds. Threads that do not meet are named in an error.
/// - Fresh memory, and shared memory at the begin of a block, holds NaN. AddressSanitizer finds
/// accesses
///   beyond allocations and arrays, UBSan misaligned vectors.
/// - Limits of launches, pointers that are no memory of the device, what cuBLASLt refuses.
///
/// What it does not show:
/// - Time. Events measure a virtual time that knows nothing of a device.
/// - Real concurrency: one block, and one of its threads, runs at a time, until it meets others.
/// Races
///   within one step of a thread, and the memory model (fences, caches, volatile), do not show.
/// - Registers, occupancy, the size of shared memory: nvcc tells.
/// - The last bits of a device's arithmetic: formulas are those of the CPU (no __CUDA_ARCH__),
/// products
///   of matrices plain sums.
/// - Copies from and to pageable host memory are as asynchronous as others; on a device some wait.
/// - Several devices differ in nothing but their number.
///
/// Environment: STAGECRAFT_EMULATION_SEED, STAGECRAFT_EMULATED_DEVICES (0: a machine without a
/// driver).
namespace stagecraft::emulation {

/// Begins the random order anew. The same seed and the same calls give the same order.
void set_seed(std::uint64_t seed);

/// 0: every call returns cudaErrorInsufficientDriver and changes nothing.
void set_device_count(int count);

/// Of device memory; 16 GiB unless set.
void set_memory_capacity(std::size_t bytes);

/// Bytes of device memory that are allocated.
std::size_t memory_in_use();

/// Makes the device work again after a kernel's failure.
void repair();

}  // namespace stagecraft::emulation
