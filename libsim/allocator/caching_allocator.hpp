#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/allocator_settings.hpp"
#include "libsim/allocator/block_table.hpp"
#include "libsim/allocator/free_blocks.hpp"
#include "libsim/allocator/growth_watch.hpp"
#include "libsim/allocator/request_sizes.hpp"
#include "libsim/allocator/segment_places.hpp"
#include "libsim/allocator/stream_events.hpp"

namespace stagecraft {

/// The physical memory of a device. The driver maps pages of 2 MiB anywhere, so only the sum
/// matters.
class PhysicalMemory {
 public:
  explicit PhysicalMemory(std::int64_t capacity) : capacity_{capacity} {}

  std::int64_t capacity() const { return capacity_; }
  std::int64_t used() const { return used_; }

  /// Takes `count` pieces of memory; false, and nothing happens, if there is not enough.
  bool take(std::int64_t bytes, std::int64_t count = 1) {
    std::int64_t const pages = count * in_pages(bytes);
    if (pages > capacity_ - used_) return false;
    used_ += pages;
    return true;
  }
  /// Takes memory that others have got, enough or not.
  void take_foreign(std::int64_t bytes) { used_ += in_pages(bytes); }
  void give_back(std::int64_t bytes, std::int64_t count = 1) { used_ -= count * in_pages(bytes); }

 private:
  static std::int64_t in_pages(std::int64_t bytes) {
    constexpr std::int64_t page = std::int64_t{2} << 20;
    return (bytes + page - 1) / page * page;
  }

  std::int64_t capacity_;
  std::int64_t used_ = 0;
};

/// The free memory of one stream, for small or for large blocks.
struct StreamPool {
  FreeBlocks free;
  std::int32_t stream = 0;
  bool is_large = false;
  std::vector<Block*> unmapped;  ///< by address; growing segments only
  GrowthWatch watch;
};

/// PyTorch's native caching allocator for CUDA.
///
/// It keeps what is freed: requests are rounded and served by the smallest free block of their
/// pool (up to 1 MiB, and above) and stream, which is split; otherwise a segment is taken from the
/// device, and if the device refuses, free segments are given back first. With expandable segments,
/// memory is mapped page by page behind what a stream already has.
///
/// The same calls give the same counters as PyTorch, to the byte, if segments lie in the same
/// order: their addresses decide between free blocks of equal size. They rise in the order in which
/// they are taken unless place_segments() says otherwise.
/// Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp.
class CachingAllocator final : public Allocator {
 public:
  CachingAllocator(AllocatorSettings const& settings, std::int64_t capacity);

  BlockId allocate(std::int64_t bytes, std::int32_t stream) override;
  void record_stream(BlockId block, std::int32_t stream) override;
  void free(BlockId block) override;
  void empty_cache() override { release_cached(); }
  void take_foreign(std::int64_t bytes) override;
  void set_memory_fraction(double fraction) override;
  void place_segments(SegmentPlaces const& places) override { addresses_.follow(places); }
  void advance(std::int64_t time) override { events_.advance(time); }
  void set_event_delay(std::int64_t time) override { events_.set_delay(time); }
  std::vector<MemoryBlock> blocks() const override;
  bool append_state(std::vector<std::int64_t>& state) const override;
  std::int64_t address_of(BlockId block) const override { return block->address; }

  /// Watches a round of requests of the first stream from here on (growth_watch.hpp).
  void watch_round();
  /// Whether it is known that what has been asked since then would take no memory if it were asked
  /// once more. Pre: the blocks that are live are those that were live then.
  bool would_repeat_round() const;

 private:
  /// A request, and what follows from its size and stream.
  struct Request {
    std::int64_t bytes = 0;
    std::int32_t stream = 0;
    std::size_t bin = 0;          ///< FreeBlocks::bin_of(size)
    std::int64_t size = 0;        ///< rounded
    std::int64_t too_large = 0;   ///< a free block of this size does not serve it
    std::int64_t least_rest = 0;  ///< what is left of a block is split off from this size on
    StreamPool* pool = nullptr;
  };
  /// A stream that uses a block which belongs to another.
  struct StreamUse {
    std::int32_t stream = 0;
    std::int32_t next = -1;
  };

  bool collects_garbage() const { return allowed_ && settings_.garbage_collection_threshold > 0; }
  bool is_over_allowed(std::int64_t segment) const {
    return allowed_ && counters_.reserved + segment > *allowed_;
  }
  void note_device() { counters_.device_used = device_.used(); }

  /// The request, looked at only if no recent one was the same.
  Request const& request(std::int64_t bytes, std::int32_t stream);
  Request new_request(std::int64_t bytes, std::int32_t stream);
  /// The best fit, taken out of its pool; null if there is none.
  Block* take_free(Request const& request);
  /// Memory for a request that no free block serves; null if the device has none left.
  Block* find_memory(Request const& request);
  Block* take_segment(Request const& request);
  Block* carve(Block* found, Request const& request);

  void insert_free(Block* block);
  void remove_free(Block const* block);
  /// Joins `from` to its neighbour `into`, if it may be. \return the bytes that `into` has gained
  std::int64_t merge(Block* into, Block* from);
  void free_now(Block* block);
  void collect_events();
  void finish_event(Block* block);
  void record_events(Block* block);

  void collect_garbage();
  bool release_oversize(Request const& request);
  void release_cached();
  void release_pool(StreamPool& pool);
  void release_segment(Block* block);

  // Growing segments (expandable_segments.cpp).
  std::int64_t page_of(StreamPool const& pool) const;
  /// The free block that can grow least is the best fit: what follows it without memory counts.
  Block* least_growing(FreeBlocks const& free, std::int64_t size) const;
  Block* take_expandable(Request const& request);
  Block* find_expandable(Request const& request);
  Block* reserve_addresses(Request const& request);
  bool map(Block* block, std::int64_t bytes);
  void unmap(Block* block);
  void insert_unmapped(Block* block);
  void remove_unmapped(Block const* block);

  AllocatorSettings settings_;
  PhysicalMemory device_;
  std::optional<std::int64_t> allowed_;  ///< most bytes to be reserved
  BlockTable blocks_;
  std::deque<StreamPool>
      pools_;                  ///< for each stream, that of small blocks, then that of large ones
  std::int64_t searches_ = 0;  ///< searches of the pools of large blocks, by which age is counted
  StreamEvents events_;
  std::vector<StreamUse> uses_;
  std::int32_t unused_use_ = -1;  ///< first of the entries of uses_ that are free
  SegmentAddresses addresses_;
  static constexpr int recent_bits = 7;
  std::array<Request, std::size_t{1} << recent_bits> recent_;  ///< by a hash of their bytes
  std::vector<Block*> found_;    ///< kept, so that a release allocates nothing
  std::int64_t given_back_ = 0;  ///< segments, when a round began to be watched
  bool repeats_round_ = false;   ///< nothing that was watched says otherwise
};

// Every allocation runs these functions. They are inline so that callers that know the class make
// no virtual calls.

inline BlockId CachingAllocator::allocate(std::int64_t bytes, std::int32_t stream) {
  if (!events_.is_empty()) collect_events();
  Request const& of = request(bytes, stream);
  Block* found = take_free(of);
  if (found == nullptr) found = find_memory(of);
  return found == nullptr ? no_block : carve(found, of);
}

inline CachingAllocator::Request const& CachingAllocator::request(std::int64_t bytes,
                                                                  std::int32_t stream) {
  // Fibonacci hashing: sizes are products of small factors and powers of two.
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;
  Request& recent = recent_[static_cast<std::uint64_t>(bytes) * golden >> (64 - recent_bits)];
  if (recent.bytes != bytes || recent.stream != stream) recent = new_request(bytes, stream);
  return recent;
}

inline Block* CachingAllocator::take_free(Request const& request) {
  FreeBlocks& free = request.pool->free;
  if (collects_garbage() && request.pool->is_large) ++searches_;
  Block* const found = settings_.expandable_segments ? least_growing(free, request.size)
                                                     : free.lower_bound(request.size, request.bin);
  if (found->size >= request.too_large) return nullptr;
  free.remove(found);
  return found;
}

inline Block* CachingAllocator::carve(Block* found, Request const& request) {
  GrowthWatch& watch = request.pool->watch;
  if (watch.is_watching()) watch.note_served(request.size, found->size);
  std::int64_t const before = blocks_.split_bytes(found);
  std::int64_t left = 0;
  if (found->size - request.size >= request.least_rest) {
    Block* const rest = blocks_.split(found, request.size);
    insert_free(rest);
    left = rest->size;
  }
  if (!settings_.expandable_segments) counters_.inactive_split += left - before;
  found->is_allocated = true;
  found->is_available = false;
  found->requested = request.bytes;
  counters_.allocate(found->size, request.bytes);
  return found;
}

inline void CachingAllocator::free(BlockId block) {
  block->is_allocated = false;
  counters_.allocated -= block->size;
  if (block->uses >= 0) {
    record_events(block);
  } else {
    free_now(block);
  }
}

inline void CachingAllocator::free_now(Block* block) {
  counters_.active -= block->size;
  counters_.requested -= block->requested;
  block->is_available = true;
  std::int64_t gained = merge(block, block->previous);
  gained += merge(block, block->next);
  insert_free(block);
  if (settings_.expandable_segments) return;
  counters_.inactive_split += blocks_.split_bytes(block) - gained;
}

inline std::int64_t CachingAllocator::merge(Block* into, Block* from) {
  if (!from->is_available || from->is_mapped != into->is_mapped) return 0;
  if (from->is_mapped) {
    remove_free(from);
  } else {
    remove_unmapped(from);
  }
  if (into->previous == from) {
    into->address = from->address;
    into->previous = from->previous;
    into->previous->next = into;
  } else {
    into->next = from->next;
    into->next->previous = into;
  }
  std::int64_t const gained = from->size;
  into->size += gained;
  blocks_.remove(from);
  return gained;
}

inline void CachingAllocator::insert_free(Block* block) {
  block->search = searches_;
  block->pool->free.insert(block);
}

inline void CachingAllocator::remove_free(Block const* block) { block->pool->free.remove(block); }

}  // namespace stagecraft
