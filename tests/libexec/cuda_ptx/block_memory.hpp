#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/libexec/cuda_ptx/program.hpp"

namespace stagecraft::ptx {

// Generic addresses of shared and of local memory: no host has memory there.
inline constexpr std::uint64_t shared_window = std::uint64_t{1} << 56;
inline constexpr std::uint64_t local_window = std::uint64_t{1} << 57;
/// Shared and local memory do not begin at 0, so that a null pointer is found.
inline constexpr std::uint64_t first_address = 1024;
/// In the parameters' space, those of calls begin here: they are a thread's own.
inline constexpr std::uint64_t call_parameters = std::uint64_t{1} << 20;

/// Memory from its first byte to behind its last; empty where there is none.
struct MemoryRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The allocation that an address is in. Its bytes are the host's at the same address.
using FindAllocation = std::function<MemoryRange(std::uint64_t address)>;

/// The memory that the threads of a block see. Shared memory notices races: between two barriers,
/// what one warp writes no other may read or write. (Races within a warp are not noticed.)
class BlockMemory {
 public:
  explicit BlockMemory(FindAllocation find) : find_{std::move(find)} {}

  /// Of a new block: shared and local memory hold bytes of 0xFF, which is NaN.
  void begin_block(std::size_t shared_bytes,
                   std::size_t local_bytes,
                   std::size_t threads,
                   std::vector<std::byte> const& parameters);
  /// All threads of the block have met.
  void pass_barrier() { ++epoch_; }

  /// \throws Fault  if it is not aligned to its size, or not in memory that there is
  std::byte const* read(Space space, std::uint64_t address, unsigned bytes, int warp, int lane);
  std::byte* write(Space space, std::uint64_t address, unsigned bytes, int warp, int lane);

 private:
  /// Who touched two bytes of shared memory last, since which barrier.
  struct Touch {
    std::uint32_t epoch = 0;
    std::int32_t warp = 0;
  };

  std::byte* at(Space& space, std::uint64_t& address, unsigned bytes, int warp, int lane);
  std::byte* global(std::uint64_t address, unsigned bytes);

  FindAllocation find_;
  MemoryRange recent_[4]{};
  unsigned oldest_ = 0;
  std::vector<std::byte> shared_;
  std::vector<std::byte> local_;
  std::size_t local_bytes_ = 0;
  std::vector<std::byte> const* parameters_ = nullptr;
  std::vector<Touch> reads_;
  std::vector<Touch> writes_;
  std::uint32_t epoch_ = 0;
};

}  // namespace stagecraft::ptx
