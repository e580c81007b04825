#include "libsim/allocator/free_blocks.hpp"

#include <cstdlib>

namespace stagecraft {

void FreeBlocks::insert_among(std::size_t bin, std::int32_t first, Node& added) {
  FreeBlock const& block = added.free;
  // The block after the new one, around the ring: the first one if it is behind all.
  std::int32_t after = first;
  if (block.is_before(node(first).free)) {
    first_[bin] = block.block;
  } else if (block.is_before(node(node(first).previous).free)) {
    after = following(bin, first, block);
  }
  recent_[bin] = block.block;
  added.next = after;
  added.previous = node(after).previous;
  node(added.previous).next = block.block;
  node(after).previous = block.block;
}

std::int32_t FreeBlocks::following(std::size_t bin,
                                   std::int32_t first,
                                   FreeBlock const& block) const {
  auto const is_ahead = [&](std::int32_t at) { return node(at).free.is_before(block); };
  auto const distance = [&](std::int32_t at) {
    return std::abs(node(at).free.address - block.address);
  };
  std::int32_t after = recent_[bin];
  // From an end, if that is closer.
  std::int32_t const end = is_ahead(after) ? node(first).previous : first;
  if (distance(end) < distance(after)) after = end;
  if (is_ahead(after)) {
    do after = node(after).next;
    while (is_ahead(after));
  } else {
    while (!is_ahead(node(after).previous)) after = node(after).previous;
  }
  return after;
}

std::int32_t FreeBlocks::next(std::int32_t block) const {
  std::size_t const bin = bin_of(node(block).free.size);
  std::int32_t const after = node(block).next;
  return after == first_[bin] ? first_from(bin + 1) : after;
}

std::int32_t FreeBlocks::before(std::int32_t block) const {
  std::size_t const bin = bin_of(node(block).free.size);
  return block == first_[bin] ? last_until(bin) : node(block).previous;
}

std::int32_t FreeBlocks::last_until(std::size_t bin) const {
  while (bin-- > 0) {
    if (first_[bin] != none) return node(first_[bin]).previous;
  }
  return none;
}

void FreeBlocks::append_to(std::vector<FreeBlock>& blocks) const {
  for (std::int32_t at = first_from(0); at != none; at = next(at)) blocks.push_back((*this)[at]);
}

}  // namespace stagecraft
