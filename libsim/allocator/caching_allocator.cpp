#include "libsim/allocator/caching_allocator.hpp"

#include <algorithm>

#include "libsim/allocator/request_sizes.hpp"

namespace stagecraft {

CachingAllocator::CachingAllocator(AllocatorSettings const& settings, std::int64_t capacity)
    : settings_{settings}, device_{capacity} {
  if (settings.memory_fraction) set_memory_fraction(*settings.memory_fraction);
}

BlockId CachingAllocator::allocate(std::int64_t bytes, std::int32_t stream) {
  if (!events_.is_empty()) {
    events_.collect([this](BlockId id) { finish_event(id); });
  }
  Request request;
  request.size = request_sizes::block_size(bytes, settings_);
  request.segment = request_sizes::segment_size(request.size, settings_);
  request.pool = 2 * stream + (request_sizes::is_small(request.size) ? 0 : 1);
  auto const pools = 2 * static_cast<std::size_t>(stream) + 2;
  if (pools_.size() < pools) pools_.resize(pools);

  BlockId found = take_free(request);
  if (found == no_block) {
    if (collects_garbage()) collect_garbage();
    found = take_segment(request);
  }
  if (found == no_block && release_oversize(request)) found = take_segment(request);
  if (found == no_block) {
    release_cached();
    ++counters_.retries;
    found = take_segment(request);
  }
  if (found == no_block) {
    ++counters_.ooms;
    return no_block;
  }
  return carve(found, request, bytes);
}

BlockId CachingAllocator::take_free(Request const& request) {
  if (collects_garbage()) ++searches_[static_cast<std::size_t>(request.pool % 2)];
  FreeBlocks& free = pool_at(request.pool).free;
  BlockId const found = settings_.expandable_segments ? least_growing(free, request.size)
                                                      : free.lower_bound(request.size);
  if (found == FreeBlocks::none) return no_block;
  std::int64_t const size = blocks_[found].size;
  std::int64_t const oversize = settings_.max_split_size;
  if (request.size < oversize && size >= oversize) return no_block;
  if (request.size >= oversize && size - request.size >= settings_.max_non_split_rounding) {
    return no_block;
  }
  free.remove(found);
  return found;
}

BlockId CachingAllocator::take_segment(Request const& request) {
  if (is_over_allowed(request.segment)) return no_block;
  if (settings_.expandable_segments) return take_expandable(request);
  if (!device_.take(request.segment)) return no_block;
  note_device();
  counters_.reserve(request.segment);
  ++counters_.segments;
  Block block;
  block.address = next_address_;
  block.size = request.segment;
  block.pool = request.pool;
  next_address_ += request.segment;
  return blocks_.add(block);
}

bool CachingAllocator::should_split(Block const& block, std::int64_t size) const {
  std::int64_t const rest = block.size - size;
  if (!block.is_large() || settings_.expandable_segments) {
    return rest >= request_sizes::smallest_block;
  }
  return size < settings_.max_split_size && rest > request_sizes::largest_small;
}

BlockId CachingAllocator::carve(BlockId found, Request const& request, std::int64_t bytes) {
  bool const is_expandable = settings_.expandable_segments;
  bool const was_split = blocks_[found].is_split();
  if (should_split(blocks_[found], request.size)) {
    BlockId const rest = blocks_.split(found, request.size);
    insert_free(rest);
    if (!is_expandable) {
      counters_.inactive_split += was_split ? -request.size : blocks_[rest].size;
    }
  } else if (was_split && !is_expandable) {
    counters_.inactive_split -= blocks_[found].size;
  }
  Block& block = blocks_[found];
  block.is_allocated = true;
  block.requested = bytes;
  counters_.allocate(block.size, bytes);
  return found;
}

void CachingAllocator::record_stream(BlockId id, std::int32_t stream) {
  Block& block = blocks_[id];
  if (stream == block.pool / 2) return;  // its own
  for (std::int32_t use = block.uses; use >= 0; use = uses_[static_cast<std::size_t>(use)].next) {
    if (uses_[static_cast<std::size_t>(use)].stream == stream) return;
  }
  std::int32_t entry = unused_use_;
  if (entry < 0) {
    entry = static_cast<std::int32_t>(uses_.size());
    uses_.emplace_back();
  } else {
    unused_use_ = uses_[static_cast<std::size_t>(entry)].next;
  }
  uses_[static_cast<std::size_t>(entry)] = {stream, block.uses};
  block.uses = entry;
}

void CachingAllocator::free(BlockId id) {
  Block& block = blocks_[id];
  block.is_allocated = false;
  counters_.allocated -= block.size;
  if (block.uses >= 0) {
    record_events(id);
  } else {
    free_now(id);
  }
}

void CachingAllocator::record_events(BlockId id) {
  Block& block = blocks_[id];
  while (block.uses >= 0) {
    std::int32_t const entry = block.uses;
    StreamUse& use = uses_[static_cast<std::size_t>(entry)];
    events_.record(id, use.stream);
    ++block.pending;
    block.uses = use.next;
    use.next = unused_use_;
    unused_use_ = entry;
  }
}

void CachingAllocator::finish_event(BlockId id) {
  if (--blocks_[id].pending == 0) free_now(id);
}

void CachingAllocator::free_now(BlockId id) {
  counters_.active -= blocks_[id].size;
  counters_.requested -= blocks_[id].requested;
  std::int64_t const before = merge(id, blocks_[id].previous);
  std::int64_t const after = merge(id, blocks_[id].next);
  insert_free(id);
  if (settings_.expandable_segments) return;
  counters_.inactive_split -= before + after;
  if (blocks_[id].is_split()) counters_.inactive_split += blocks_[id].size;
}

std::int64_t CachingAllocator::merge(BlockId into, BlockId from) {
  if (from == no_block) return 0;
  Block& block = blocks_[into];
  Block const& other = blocks_[from];
  if (!other.is_available() || other.is_mapped != block.is_mapped) return 0;
  if (other.is_mapped) {
    remove_free(from);
  } else {
    remove_unmapped(from);
  }
  if (block.previous == from) {
    block.address = other.address;
    block.previous = other.previous;
  } else {
    block.next = other.next;
  }
  std::int64_t const gained = other.size;
  block.size += gained;
  blocks_.link(into);
  blocks_.remove(from);
  return gained;
}

void CachingAllocator::insert_free(BlockId id) {
  Block& block = blocks_[id];
  block.search = searches_of(block);
  pool_at(block.pool).free.insert({block.size, block.address, id});
}

void CachingAllocator::remove_free(BlockId id) {
  Block const& block = blocks_[id];
  pool_at(block.pool).free.remove(id);
}

std::vector<MemoryBlock> CachingAllocator::blocks() const {
  std::vector<MemoryBlock> result;
  for (BlockId const id : blocks_.ids()) {
    Block const& block = blocks_[id];
    if (!block.is_mapped) continue;
    result.push_back({.address = block.address,
                      .size = block.size,
                      .requested = block.is_allocated ? block.requested : 0,
                      .stream = block.pool / 2,
                      .is_small = !block.is_large(),
                      .is_live = block.is_allocated,
                      .is_split = block.is_split(),
                      .begins_segment = block.previous == no_block});
  }
  std::sort(result.begin(), result.end(),
            [](MemoryBlock const& a, MemoryBlock const& b) { return a.address < b.address; });
  return result;
}

void CachingAllocator::take_foreign(std::int64_t bytes) {
  device_.take_foreign(bytes);
  note_device();
}

void CachingAllocator::set_memory_fraction(double fraction) {
  allowed_.reset();
  if (fraction < 1) {
    allowed_ = static_cast<std::int64_t>(fraction * static_cast<double>(device_.capacity()));
  }
}

}  // namespace stagecraft
