#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/allocator_settings.hpp"
#include "libsim/allocator/block_table.hpp"
#include "libsim/allocator/free_blocks.hpp"
#include "libsim/allocator/growth_watch.hpp"
#include "libsim/allocator/physical_memory.hpp"
#include "libsim/allocator/request_sizes.hpp"
#include "libsim/allocator/segment_places.hpp"
#include "libsim/allocator/stream_events.hpp"

namespace stagecraft {

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
  std::int64_t address_of(BlockId block) const override { return blocks_[block].address; }

  /// Watches a round of requests of the first stream from here on (growth_watch.hpp).
  void watch_round();
  /// Whether it is known that what has been asked since then would take no memory if it were asked
  /// once more. Pre: the blocks that are live are those that were live then.
  bool would_repeat_round() const;

 private:
  /// The free memory of one stream, for small or for large blocks.
  struct StreamPool {
    FreeBlocks free;
    std::vector<BlockId> unmapped;  ///< by address; growing segments only
    GrowthWatch watch;
  };
  /// A request on its way.
  struct Request {
    std::int64_t size = 0;  ///< rounded
    std::int32_t pool = 0;
  };
  /// A stream that uses a block which belongs to another.
  struct StreamUse {
    std::int32_t stream = 0;
    std::int32_t next = -1;
  };

  StreamPool& pool_at(std::int32_t pool) { return pools_[static_cast<std::size_t>(pool)]; }
  std::int64_t& searches_of(Block const& block) { return searches_[block.is_large() ? 1 : 0]; }
  bool collects_garbage() const { return allowed_ && settings_.garbage_collection_threshold > 0; }
  bool is_over_allowed(std::int64_t segment) const {
    return allowed_ && counters_.reserved + segment > *allowed_;
  }
  void note_device() { counters_.device_used = device_.used(); }

  BlockId take_free(Request const& request);
  /// Memory for a request that no free block serves; no_block if the device has none left.
  BlockId find_memory(Request const& request);
  BlockId take_segment(Request const& request);
  BlockId carve(BlockId found, Request const& request, std::int64_t bytes);
  bool should_split(Block const& block, std::int64_t size) const;

  void insert_free(BlockId id);
  void remove_free(BlockId id);
  /// Joins `from` to its neighbour `into`, if it may be. \return the bytes that `into` has gained
  std::int64_t merge(BlockId into, BlockId from);
  void free_now(BlockId id);
  void collect_events();
  void finish_event(BlockId id);
  void record_events(BlockId id);

  void collect_garbage();
  bool release_oversize(Request const& request);
  void release_cached();
  void release_pool(StreamPool& pool);
  void release_segment(BlockId id);

  // Growing segments (expandable_segments.cpp).
  std::int64_t page_of(Block const& block) const;
  /// The free block that can grow least is the best fit: what follows it without memory counts.
  BlockId least_growing(FreeBlocks const& free, std::int64_t size) const;
  BlockId take_expandable(Request const& request);
  BlockId find_expandable(Request const& request);
  BlockId reserve_addresses(Request const& request);
  bool map(BlockId id, std::int64_t bytes);
  void unmap(BlockId id);
  void insert_unmapped(BlockId id);
  void remove_unmapped(BlockId id);

  AllocatorSettings settings_;
  PhysicalMemory device_;
  std::optional<std::int64_t> allowed_;  ///< most bytes to be reserved
  BlockTable blocks_;
  std::vector<StreamPool> pools_;           ///< by Block::pool
  std::array<std::int64_t, 2> searches_{};  ///< of small and of large blocks, for their age
  StreamEvents events_;
  std::vector<StreamUse> uses_;
  std::int32_t unused_use_ = -1;  ///< first of the entries of uses_ that are free
  SegmentAddresses addresses_;
  std::vector<BlockId> found_;   ///< kept, so that a release allocates nothing
  std::int64_t given_back_ = 0;  ///< segments, when a round began to be watched
  bool repeats_round_ = false;   ///< nothing that was watched says otherwise
};

// Every allocation runs these functions. They are inline so that callers that know the class make
// no virtual calls.

inline BlockId CachingAllocator::allocate(std::int64_t bytes, std::int32_t stream) {
  if (!events_.is_empty()) collect_events();
  std::int64_t const size = request_sizes::block_size(bytes, settings_);
  Request const request{size, 2 * stream + (request_sizes::is_small(size) ? 0 : 1)};
  auto const pools = 2 * static_cast<std::size_t>(stream) + 2;
  if (pools_.size() < pools) pools_.resize(pools);
  BlockId found = take_free(request);
  if (found == no_block) found = find_memory(request);
  return found == no_block ? no_block : carve(found, request, bytes);
}

inline BlockId CachingAllocator::take_free(Request const& request) {
  if (collects_garbage()) ++searches_[static_cast<std::size_t>(request.pool % 2)];
  FreeBlocks& free = pool_at(request.pool).free;
  BlockId const found = settings_.expandable_segments ? least_growing(free, request.size)
                                                      : free.lower_bound(blocks_, request.size);
  if (found == no_block) return no_block;
  std::int64_t const size = blocks_[found].size;
  std::int64_t const oversize = settings_.max_split_size;
  if (request.size < oversize && size >= oversize) return no_block;
  if (request.size >= oversize && size - request.size >= settings_.max_non_split_rounding) {
    return no_block;
  }
  free.remove(blocks_, found);
  return found;
}

inline bool CachingAllocator::should_split(Block const& block, std::int64_t size) const {
  std::int64_t const rest = block.size - size;
  if (!block.is_large() || settings_.expandable_segments) {
    return rest >= request_sizes::smallest_block;
  }
  return size < settings_.max_split_size && rest > request_sizes::largest_small;
}

inline BlockId CachingAllocator::carve(BlockId found, Request const& request, std::int64_t bytes) {
  GrowthWatch& watch = pool_at(request.pool).watch;
  if (watch.is_watching()) watch.note_served(request.size, blocks_[found].size);
  std::int64_t const before = blocks_[found].is_split() ? blocks_[found].size : 0;
  std::int64_t left = 0;
  if (should_split(blocks_[found], request.size)) {
    BlockId const rest = blocks_.split(found, request.size);
    insert_free(rest);
    left = blocks_[rest].size;
  }
  if (!settings_.expandable_segments) counters_.inactive_split += left - before;
  Block& block = blocks_[found];
  block.is_allocated = true;
  block.is_available = false;
  block.requested = bytes;
  counters_.allocate(block.size, bytes);
  return found;
}

inline void CachingAllocator::free(BlockId id) {
  Block& block = blocks_[id];
  block.is_allocated = false;
  counters_.allocated -= block.size;
  if (block.uses >= 0) {
    record_events(id);
  } else {
    free_now(id);
  }
}

inline void CachingAllocator::free_now(BlockId id) {
  Block& block = blocks_[id];
  counters_.active -= block.size;
  counters_.requested -= block.requested;
  block.is_available = true;
  std::int64_t gained = merge(id, block.previous);
  gained += merge(id, block.next);
  insert_free(id);
  if (settings_.expandable_segments) return;
  counters_.inactive_split += (block.is_split() ? block.size : 0) - gained;
}

inline std::int64_t CachingAllocator::merge(BlockId into, BlockId from) {
  Block& block = blocks_[into];
  Block const& other = blocks_[from];
  if (!other.is_available || other.is_mapped != block.is_mapped) return 0;
  if (other.is_mapped) {
    remove_free(from);
  } else {
    remove_unmapped(from);
  }
  if (block.previous == from) {
    block.address = other.address;
    block.previous = other.previous;
    blocks_[block.previous].next = into;
  } else {
    block.next = other.next;
    blocks_[block.next].previous = into;
  }
  std::int64_t const gained = other.size;
  block.size += gained;
  blocks_.remove(from);
  return gained;
}

inline void CachingAllocator::insert_free(BlockId id) {
  Block& block = blocks_[id];
  block.search = searches_of(block);
  pool_at(block.pool).free.insert(blocks_, id);
}

inline void CachingAllocator::remove_free(BlockId id) {
  Block const& block = blocks_[id];
  pool_at(block.pool).free.remove(blocks_, id);
}

}  // namespace stagecraft
