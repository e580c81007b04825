#include "libsim/allocator/free_blocks.hpp"

#include <cstdlib>

namespace stagecraft {

void FreeBlocks::insert_behind_first(Bin& bin, std::int32_t block) {
  Node& added = node(block);
  auto const is_before = [&](std::int32_t at) {
    return node(at).is_before(added.size, added.address);
  };
  auto const distance = [&](std::int32_t at) { return std::abs(node(at).address - added.address); };
  std::int32_t before = bin.recent;
  if (distance(bin.first) < distance(before)) before = bin.first;
  if (distance(bin.last) < distance(before)) before = bin.last;
  if (is_before(before)) {
    while (is_before(node(before).next)) before = node(before).next;
  } else {
    do before = node(before).previous;
    while (!is_before(before));
  }
  added.previous = before;
  added.next = node(before).next;
  node(before).next = block;
  node(added.next).previous = block;
  bin.recent = block;
  bin.last = added.next == none ? block : bin.last;
}

std::int32_t FreeBlocks::next(std::int32_t block) const {
  std::int32_t const after = node(block).next;
  return after == none ? first_from(static_cast<std::size_t>(node(block).bin) + 1) : after;
}

std::int32_t FreeBlocks::before(std::int32_t block) const {
  std::int32_t const previous = node(block).previous;
  return previous == none ? last_until(static_cast<std::size_t>(node(block).bin)) : previous;
}

std::int32_t FreeBlocks::last_until(std::size_t bin) const {
  while (bin-- > 0) {
    if (bins_[bin].last != none) return bins_[bin].last;
  }
  return none;
}

void FreeBlocks::append_to(std::vector<FreeBlock>& blocks) const {
  for (std::int32_t at = first_from(0); at != none; at = next(at)) {
    blocks.push_back({node(at).size, node(at).address, at});
  }
}

}  // namespace stagecraft
