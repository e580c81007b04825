#include <algorithm>

#include "libsim/allocator/caching_allocator.hpp"

// How the caching allocator gives segments back to the device.

namespace stagecraft {

void CachingAllocator::collect_garbage() {
  auto const threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(*allowed_));
  if (counters_.reserved <= threshold || settings_.expandable_segments) return;
  std::int64_t const target = counters_.reserved - threshold;
  found_.clear();
  for (std::size_t pool = 1; pool < pools_.size(); pool += 2) {
    pools_[pool].free.append_to(found_);
  }
  std::erase_if(found_, [&](Block const* block) { return blocks_.is_split(block); });
  auto const age = [&](Block const* block) { return searches_ - block->search; };
  std::int64_t total_age = 0;
  for (Block const* const block : found_) total_age += age(block);

  std::int64_t released = 0;
  bool has_released = true;
  while (released < target && has_released && !found_.empty()) {
    double const mean_age = static_cast<double>(total_age) / static_cast<double>(found_.size());
    has_released = false;
    // All that are old enough go, even beyond the target, so that this does not happen often.
    std::erase_if(found_, [&](Block* block) {
      if (static_cast<double>(age(block)) < mean_age) return false;
      has_released = true;
      released += block->size;
      total_age -= age(block);
      release_segment(block);
      return true;
    });
  }
}

bool CachingAllocator::release_oversize(Request const& request) {
  if (settings_.max_split_size == AllocatorSettings::unlimited) return false;
  if (settings_.expandable_segments) return false;
  FreeBlocks const& free = request.pool->free;
  std::int64_t const needed = std::max(request.size, settings_.max_split_size);
  Block* at = free.lower_bound(needed);
  if (at != blocks_.none()) {
    release_segment(at);
    return true;
  }
  // No block is large enough alone: the largest ones go.
  std::int64_t released = 0;
  for (at = free.last(); released < needed && at != blocks_.none(); at = free.last()) {
    if (at->size < settings_.max_split_size) break;
    released += at->size;
    release_segment(at);
  }
  return released >= needed;
}

void CachingAllocator::release_cached() {
  events_.synchronize([this](Block* block) { finish_event(block); });
  for (std::size_t kind : {1U, 0U}) {  // large ones first
    for (std::size_t pool = kind; pool < pools_.size(); pool += 2) release_pool(pools_[pool]);
  }
}

void CachingAllocator::release_pool(StreamPool& pool) {
  found_.clear();
  pool.free.append_to(found_);
  for (Block* const block : found_) {
    if (settings_.expandable_segments) {
      unmap(block);
    } else if (!blocks_.is_split(block)) {
      release_segment(block);
    }
  }
}

void CachingAllocator::release_segment(Block* block) {
  device_.give_back(block->size);
  note_device();
  counters_.reserved -= block->size;
  --counters_.segments;
  ++counters_.device_free;
  remove_free(block);
  blocks_.remove(block);
}

}  // namespace stagecraft
