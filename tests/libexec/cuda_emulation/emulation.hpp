#pragma once

#include <cstddef>
#include <cstdint>

/// An emulation of the CUDA runtime and NCCL on a CPU, for tests: the executor's sources that use
/// them are compiled against the headers of include/, and run with their own streams and events. A
/// kernel is a function of the host (kernel_launch.hpp); the kernels of an op are those of the CPU
/// (../cuda/emulated_kernels.cpp).
///
/// What it shows:
/// - Work is done only when somebody waits for some of it, and then in an order that respects
///   nothing but streams and events, and is otherwise drawn from a seed: a missing event gives
///   a wrong result for some seeds.
/// - Fresh memory holds NaN, which is written when the stream that allocates comes to it. Kernels
///   whose memory was freed before they ran are named. AddressSanitizer finds accesses beyond
///   allocations.
/// - Pointers that are no memory of the device.
///
/// What it does not show:
/// - The kernels of CUDA: a device runs their tests (../cuda).
/// - Time. Events measure a virtual time that knows nothing of a device.
/// - Real concurrency: one kernel runs at a time.
/// - Copies from and to pageable host memory are as asynchronous as others; on a device some
///   wait.
/// - Several devices differ in nothing but their number; they share memory and one lock.
///
/// NCCL, of ../nccl_emulation, connects such devices: processes of a machine, or threads that
/// have set a device of their own, share memory that has no name and is gone with the last of
/// them. What it shows:
/// - Calls are the stream's. One waits there until all ranks have come to theirs, while other
///   streams go on; calls of a communicator run one after another as they were made, whatever
///   their streams. A message has left when it is received. Buffers are read when a rank comes
///   and written when all have, so that what is missing an event, or frees memory too early, is
///   wrong or named.
/// - A communicator that does not block is as slow as one can be: what was begun is over when
///   somebody asks, and a first call of a kind, or to a peer, is not in its stream before all
///   that it concerns have made it. A program that does not wait is told, or breaks the order
///   of its streams.
/// - A split's communicator is written when the split is over, or given up.
/// - Misuse, where NCCL hangs or overwrites: ranks whose collectives, counts, types, roots or
///   orders of calls differ are both named, as are the two ends of a message; a rank that does
///   not come within STAGECRAFT_EMULATION_NCCL_PATIENCE (60) seconds; calls on what is aborted,
///   destroyed or not ready; two ranks on a device; buffers that overlap, or are not the
///   device's; another's stream.
/// - Sums are taken in an order of ranks drawn from the seed, which changes every few elements;
///   all ranks get the same bits.
/// What it does not show:
/// - 16-bit sums are rounded once; NCCL may round after each rank.
/// - How many kernels of NCCL a device can run at once, streams that share queues, what in CUDA
///   waits for a whole device beside cudaFree: streams wait for nothing but what they must.
/// - Networks, and peers that die: nothing is reported, their calls just never come. An abort
///   waits for nobody.
/// - The same run twice: processes meet in the order that the system gives them.
/// - Groups on several streams, and communicators made within a group, are refused.
///
/// While work waits for another rank a thread makes streams go on now and then: a device does not
/// need its host for it, and the host may be waiting for just that rank.
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
