#include <algorithm>

#include "libsim/allocator/caching_allocator.hpp"
#include "libsim/allocator/request_sizes.hpp"

// Segments that grow: address space is reserved once, and memory is mapped into it page by page.

namespace stagecraft {

std::int64_t CachingAllocator::page_of(StreamPool const& pool) const {
  return pool.is_large ? settings_.large_segment_size : request_sizes::small_segment;
}

Block* CachingAllocator::least_growing(FreeBlocks const& free, std::int64_t size) const {
  Block* at = free.lower_bound(size);
  if (at == blocks_.none()) return at;
  auto const reach = [](Block const* block) {
    return block->size + (block->next->is_mapped ? 0 : block->next->size);
  };
  for (Block* next = free.next(at); next != blocks_.none() && reach(next) < reach(at);
       next = free.next(at)) {
    at = next;
  }
  return at;
}

Block* CachingAllocator::take_expandable(Request const& request) {
  Block* found = find_expandable(request);
  if (found == nullptr) return nullptr;
  if (!found->is_mapped && !map(found, std::min(found->size, request.size))) return nullptr;
  while (found->size < request.size) {
    // What follows has no memory yet; mapping it joins the free block before.
    Block* const next = found->next;
    std::int64_t const missing = request.size - found->size;
    if (!map(next, std::min(missing, next->size))) return nullptr;
    found = next;
  }
  remove_free(found);
  return found;
}

Block* CachingAllocator::find_expandable(Request const& request) {
  auto const has_room_from = [&](Block const* block) {
    std::int64_t bytes = 0;
    while (bytes < request.size && block->is_available) {
      bytes += block->size;
      block = block->next;
    }
    return bytes >= request.size;
  };
  for (Block* block : request.pool->unmapped) {
    if (block->previous->is_available) block = block->previous;
    if (has_room_from(block)) return block;
  }
  return reserve_addresses(request);
}

Block* CachingAllocator::reserve_addresses(Request const& request) {
  std::int64_t const page = page_of(*request.pool);
  // An eighth more than the device has, so that pages in the middle may be given back and others
  // mapped at the end.
  std::int64_t const whole = device_.capacity() + device_.capacity() / 8;
  std::int64_t bytes = whole;
  if (settings_.reservation) {
    double const unit =
        settings_.reservation->is_fraction ? static_cast<double>(device_.capacity()) : 1.0;
    double const wanted = settings_.reservation->value * unit;
    if (wanted < static_cast<double>(whole)) bytes = static_cast<std::int64_t>(wanted);
  }
  std::int64_t const size = std::max(request_sizes::rounded_up(bytes, page), page);
  if (size < request.size) return nullptr;
  Block* const block = blocks_.add();
  block->pool = request.pool;
  block->is_mapped = false;
  block->size = size;
  block->address = addresses_.reserve(size, page);
  insert_unmapped(block);
  return block;
}

bool CachingAllocator::map(Block* block, std::int64_t bytes) {
  std::int64_t const page = page_of(*block->pool);
  std::int64_t const mapped = request_sizes::rounded_up(bytes, page);
  if (!device_.take(page, mapped / page)) return false;
  note_device();
  counters_.reserve(mapped);
  remove_unmapped(block);
  if (mapped < block->size) insert_unmapped(blocks_.split(block, mapped));
  block->is_mapped = true;
  merge(block, block->previous);
  merge(block, block->next);
  insert_free(block);
  return true;
}

void CachingAllocator::unmap(Block* block) {
  std::int64_t const page = page_of(*block->pool);
  std::int64_t const begin = request_sizes::rounded_up(block->address, page);
  std::int64_t const end = (block->address + block->size) / page * page;
  if (begin >= end) return;

  remove_free(block);
  if (begin > block->address) {
    Block* const before = block;
    block = blocks_.split(before, begin - before->address);
    insert_free(before);
  }
  if (end < begin + block->size) insert_free(blocks_.split(block, end - begin));
  block->is_mapped = false;
  merge(block, block->previous);
  merge(block, block->next);

  device_.give_back(page, (end - begin) / page);
  note_device();
  counters_.reserved -= end - begin;
  ++counters_.device_free;
  if (blocks_.is_split(block)) {
    insert_unmapped(block);
  } else {
    blocks_.remove(block);  // the whole reservation is without memory
  }
}

void CachingAllocator::insert_unmapped(Block* block) {
  auto& list = block->pool->unmapped;
  auto const place = std::ranges::lower_bound(list, block->address, {},
                                              [](Block const* other) { return other->address; });
  list.insert(place, block);
}

void CachingAllocator::remove_unmapped(Block const* block) {
  auto& list = block->pool->unmapped;
  list.erase(std::ranges::find(list, block));
}

}  // namespace stagecraft
