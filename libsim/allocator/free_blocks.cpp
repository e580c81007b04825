#include "libsim/allocator/free_blocks.hpp"

#include <cstdlib>

namespace stagecraft {

void FreeBlocks::insert_behind_first(BlockTable& blocks, Bin& bin, BlockId id) {
  Block& added = blocks[id];
  auto const distance = [&](BlockId at) { return std::abs(blocks[at].address - added.address); };
  BlockId before = bin.recent;
  if (distance(bin.first) < distance(before)) before = bin.first;
  if (distance(bin.last) < distance(before)) before = bin.last;
  if (is_before(blocks[before], added)) {
    while (is_before(blocks[blocks[before].larger], added)) before = blocks[before].larger;
  } else {
    do before = blocks[before].smaller;
    while (!is_before(blocks[before], added));
  }
  added.smaller = before;
  added.larger = blocks[before].larger;
  blocks[before].larger = id;
  blocks[added.larger].smaller = id;
  bin.recent = id;
  bin.last = added.larger == no_block ? id : bin.last;
}

BlockId FreeBlocks::next(BlockTable const& blocks, BlockId id) const {
  Block const& block = blocks[id];
  return block.larger == no_block ? first_from(std::size_t{block.bin} + 1) : block.larger;
}

BlockId FreeBlocks::before(BlockTable const& blocks, BlockId id) const {
  Block const& block = blocks[id];
  return block.smaller == no_block ? last_until(block.bin) : block.smaller;
}

BlockId FreeBlocks::last_until(std::size_t bin) const {
  while (bin-- > 0) {
    if (bins_[bin].last != no_block) return bins_[bin].last;
  }
  return no_block;
}

void FreeBlocks::append_to(std::vector<BlockId>& found, BlockTable const& blocks) const {
  for (BlockId at = first_from(0); at != no_block; at = next(blocks, at)) found.push_back(at);
}

}  // namespace stagecraft
