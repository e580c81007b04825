#pragma once

#include <algorithm>
#include <cstdint>

namespace stagecraft {

/// What an allocator reports of itself, by the names of PyTorch's memory statistics. Bytes, or
/// counts.
struct AllocatorCounters {
  std::int64_t allocated = 0;       ///< blocks in use, whole; allocated_bytes
  std::int64_t peak_allocated = 0;  ///< max_memory_allocated
  std::int64_t reserved = 0;        ///< taken from the device; reserved_bytes
  std::int64_t peak_reserved = 0;   ///< max_memory_reserved
  std::int64_t requested = 0;       ///< what the blocks were asked for; requested_bytes
  std::int64_t active = 0;          ///< allocated, and freed blocks that wait for a stream
  std::int64_t inactive_split = 0;  ///< free blocks with a neighbour in their segment
  std::int64_t segments = 0;        ///< pieces of device memory
  std::int64_t retries = 0;         ///< requests for which the cache was released
  std::int64_t ooms = 0;
  std::int64_t device_alloc = 0;  ///< successful calls that take device memory
  std::int64_t device_free = 0;   ///< calls that give it back
  std::int64_t device_used = 0;   ///< of the device, other programs' memory included

  void allocate(std::int64_t block, std::int64_t request) {
    allocated += block;
    peak_allocated = std::max(peak_allocated, allocated);
    active += block;
    requested += request;
  }
  void reserve(std::int64_t bytes) {
    reserved += bytes;
    peak_reserved = std::max(peak_reserved, reserved);
    ++device_alloc;
  }

  friend bool operator==(AllocatorCounters const&, AllocatorCounters const&) = default;
};

}  // namespace stagecraft
