#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "libsim/allocator/segment_places.hpp"

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
  std::int64_t device_used = 0;   ///< taken from the device, other programs' memory included

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

struct Block;

/// A live allocation. What it points to concerns its allocator alone.
using BlockId = Block*;
inline constexpr BlockId no_block = nullptr;

/// The largest request, so that no sum overflows.
inline constexpr std::int64_t largest_request = std::int64_t{1} << 60;
/// A device that no run fills: 1 PiB.
inline constexpr std::int64_t unlimited_capacity = std::int64_t{1} << 50;

/// A piece of what an allocator has reserved, in use or not.
struct MemoryBlock {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;  ///< what was asked for; 0 if it is free
  std::int32_t stream = 0;
  bool is_small = false;        ///< in the pool for requests up to 1 MiB
  bool is_live = false;         ///< allocated; else free, or waiting for a stream
  bool is_split = false;        ///< has a neighbour in its segment
  bool begins_segment = false;  ///< the first block of its segment
};

/// The allocator of one device, as a framework uses it: a host-side account of which device memory
/// is taken, without any memory.
///
/// Streams are numbered from 0; a block belongs to the stream that it was allocated for. Time moves
/// only by advance(); it matters only for blocks that several streams use.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// Allocates `bytes`, from 1 to largest_request, for `stream`. Returns no_block if the device has
  /// no memory left: the run dies here, and counters().ooms has risen.
  virtual BlockId allocate(std::int64_t bytes, std::int32_t stream) = 0;
  /// Notes that `stream` also uses the block, which must be live (record_stream).
  virtual void record_stream(BlockId block, std::int32_t stream) = 0;
  /// Frees the block, which must be live.
  virtual void free(BlockId block) = 0;
  /// Gives back what is not used, as torch.cuda.empty_cache() does.
  virtual void empty_cache() = 0;
  /// Lets others take device memory: libraries, communicators, other processes.
  virtual void take_foreign(std::int64_t bytes) = 0;
  /// Limits what is reserved to a fraction of the device, from 0 to 1; 1 is no limit.
  virtual void set_memory_fraction(double fraction) = 0;
  /// Sets the addresses of the device's segments. Call it before the first is taken; allocators
  /// that do not place blocks ignore it.
  virtual void place_segments(SegmentPlaces const& /*places*/) {}
  /// Time passes, in any unit; not negative.
  virtual void advance(std::int64_t time) = 0;
  /// How long a stream takes from now on to reach an event after it is recorded; not negative.
  virtual void set_event_delay(std::int64_t time) = 0;

  AllocatorCounters const& counters() const { return counters_; }
  /// All that is reserved, by address; nothing if the allocator does not place blocks.
  virtual std::vector<MemoryBlock> blocks() const { return {}; }
  /// Appends to `state` the state that later calls depend on, except block ids; live blocks are
  /// told apart by their addresses. False if later calls depend on more than that: the age of
  /// blocks, or events of other streams.
  virtual bool append_state(std::vector<std::int64_t>& state) const = 0;
  /// The address of a live block; 0 if the allocator does not place blocks.
  virtual std::int64_t address_of(BlockId /*block*/) const { return 0; }

 protected:
  AllocatorCounters counters_;
};

/// The allocators that a run may have.
enum class AllocatorKind : std::uint8_t {
  pytorch,     ///< PyTorch's caching allocator
  cuda_async,  ///< the CUDA driver's pool behind PyTorch: cudaMallocAsync
  arena,       ///< nothing but the sum of what is live, as stagecraft-exec has it
};

}  // namespace stagecraft
