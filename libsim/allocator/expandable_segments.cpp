#include <algorithm>

#include "libsim/allocator/caching_allocator.hpp"
#include "libsim/allocator/request_sizes.hpp"

// Segments that grow: address space is reserved once, and memory is mapped into it page by page.

namespace stagecraft {

std::int64_t CachingAllocator::page_of(Block const& block) const {
  return block.is_large() ? settings_.large_segment_size : request_sizes::small_segment;
}

BlockId CachingAllocator::least_growing(FreeBlocks const& free, std::int64_t size) const {
  BlockId at = free.lower_bound(blocks_, size);
  if (at == no_block) return no_block;
  auto const reach = [&](BlockId id) {
    Block const& block = blocks_[id];
    bool const grows = block.next != no_block && !blocks_[block.next].is_mapped;
    return block.size + (grows ? blocks_[block.next].size : 0);
  };
  for (BlockId next = free.next(blocks_, at); next != no_block && reach(next) < reach(at);
       next = free.next(blocks_, at)) {
    at = next;
  }
  return at;
}

BlockId CachingAllocator::take_expandable(Request const& request) {
  BlockId found = find_expandable(request);
  if (found == no_block) return no_block;
  if (!blocks_[found].is_mapped && !map(found, std::min(blocks_[found].size, request.size))) {
    return no_block;
  }
  while (blocks_[found].size < request.size) {
    // What follows has no memory yet; mapping it joins the free block before.
    BlockId const next = blocks_[found].next;
    std::int64_t const missing = request.size - blocks_[found].size;
    if (!map(next, std::min(missing, blocks_[next].size))) return no_block;
    found = next;
  }
  remove_free(found);
  return found;
}

BlockId CachingAllocator::find_expandable(Request const& request) {
  auto const has_room_from = [&](BlockId id) {
    std::int64_t bytes = 0;
    while (bytes < request.size && blocks_[id].is_available) {
      bytes += blocks_[id].size;
      id = blocks_[id].next;
    }
    return bytes >= request.size;
  };
  for (BlockId id : pool_at(request.pool).unmapped) {
    BlockId const before = blocks_[id].previous;
    if (blocks_[before].is_available) id = before;
    if (has_room_from(id)) return id;
  }
  return reserve_addresses(request);
}

BlockId CachingAllocator::reserve_addresses(Request const& request) {
  Block block;
  block.pool = request.pool;
  block.is_mapped = false;
  std::int64_t const page = page_of(block);
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
  block.size = std::max(request_sizes::rounded_up(bytes, page), page);
  if (block.size < request.size) return no_block;
  block.address = addresses_.reserve(block.size, page);
  BlockId const id = blocks_.add(block);
  insert_unmapped(id);
  return id;
}

bool CachingAllocator::map(BlockId id, std::int64_t bytes) {
  std::int64_t const page = page_of(blocks_[id]);
  std::int64_t const mapped = request_sizes::rounded_up(bytes, page);
  if (!device_.take(page, mapped / page)) return false;
  note_device();
  counters_.reserve(mapped);
  remove_unmapped(id);
  blocks_[id].is_mapped = true;
  if (mapped < blocks_[id].size) {
    Block rest = blocks_[id];
    rest.address += mapped;
    rest.size -= mapped;
    rest.is_mapped = false;
    rest.previous = id;
    BlockId const rest_id = blocks_.add(rest);
    blocks_.link(rest_id);
    blocks_[id].size = mapped;
    insert_unmapped(rest_id);
  }
  merge(id, blocks_[id].previous);
  merge(id, blocks_[id].next);
  insert_free(id);
  return true;
}

void CachingAllocator::unmap(BlockId id) {
  Block const whole = blocks_[id];
  std::int64_t const page = page_of(whole);
  std::int64_t const begin = request_sizes::rounded_up(whole.address, page);
  std::int64_t const end = (whole.address + whole.size) / page * page;
  if (begin >= end) return;

  remove_free(id);
  auto const keep = [&](std::int64_t address, std::int64_t size, BlockId previous, BlockId next) {
    Block block = whole;
    block.address = address;
    block.size = size;
    block.previous = previous;
    block.next = next;
    BlockId const kept = blocks_.add(block);
    blocks_.link(kept);
    insert_free(kept);
  };
  if (begin > whole.address) keep(whole.address, begin - whole.address, whole.previous, id);
  std::int64_t const after = whole.address + whole.size - end;
  if (after > 0) keep(end, after, id, blocks_[id].next);
  Block& block = blocks_[id];
  block.address = begin;
  block.size = end - begin;
  block.is_mapped = false;
  merge(id, block.previous);
  merge(id, blocks_[id].next);

  device_.give_back(page, (end - begin) / page);
  note_device();
  counters_.reserved -= end - begin;
  ++counters_.device_free;
  if (blocks_[id].is_split()) {
    insert_unmapped(id);
  } else {
    blocks_.remove(id);  // the whole reservation is without memory
  }
}

void CachingAllocator::insert_unmapped(BlockId id) {
  Block const& block = blocks_[id];
  auto& list = pool_at(block.pool).unmapped;
  auto const place = std::lower_bound(
      list.begin(), list.end(), block.address,
      [&](BlockId other, std::int64_t address) { return blocks_[other].address < address; });
  list.insert(place, id);
}

void CachingAllocator::remove_unmapped(BlockId id) {
  auto& list = pool_at(blocks_[id].pool).unmapped;
  list.erase(std::find(list.begin(), list.end(), id));
}

}  // namespace stagecraft
