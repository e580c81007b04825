#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "libsim/allocator/block_table.hpp"

namespace stagecraft {

/// The free blocks of one pool and stream, ordered by size, then address.
///
/// Sizes fall into bins, 64 between two powers of two, each a sorted list whose links stand in the
/// blocks. A block is removed, and the best fit is found, without a search but within a
/// bin. Most are added in front of their bin; the others by a search from the closest of its
/// two ends and the place of its last change, because a bin often holds hundreds of blocks of one
/// size, and blocks that are freed together lie together.
///
/// Each list ends with the table's sentinel, which is larger than any block; an empty list is the
/// sentinel alone. Its own links may be written but mean nothing, so that ends are no case of their
/// own. All calls get the table that holds the blocks, and no block changes while it is there.
class FreeBlocks {
 public:
  static constexpr std::size_t bin_words = 32;
  static constexpr std::size_t most_bins = 64 * bin_words;

  /// Rises with the size. Up to 64 KiB, sizes have bins of their own; from 64 TiB on, all share
  /// one.
  static std::size_t bin_of(std::int64_t size) {
    constexpr int divisions = 6;  // 2^6 bins between two powers of two
    auto const units = static_cast<std::uint64_t>(size) >> 9;
    int const power = static_cast<int>(std::bit_width(units)) - 1;
    if (power < divisions) return units;
    int const dropped = power - divisions;
    std::size_t const bin = (static_cast<std::size_t>(dropped) << divisions) + (units >> dropped);
    return std::min(bin, most_bins - 1);
  }

  /// Pre: the block is not there.
  void insert(BlockTable& blocks, BlockId id) {
    Block& added = blocks[id];
    std::size_t const bin = bin_of(added.size);
    added.bin = static_cast<std::uint16_t>(bin);
    Bin& list = bins_[bin];
    BlockId const first = list.first;
    if (is_before(blocks[first], added)) {
      insert_behind_first(blocks, list, id);
      return;
    }
    added.smaller = no_block;
    added.larger = first;
    blocks[first].smaller = id;
    list.first = list.recent = id;
    list.last = first == no_block ? id : list.last;
    filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  }
  /// Pre: the block is there.
  void remove(BlockTable& blocks, BlockId id) {
    Block const& removed = blocks[id];
    std::size_t const bin = removed.bin;
    BlockId const smaller = removed.smaller;
    BlockId const larger = removed.larger;
    blocks[smaller].larger = larger;
    blocks[larger].smaller = smaller;
    // Without branches, which nobody could predict.
    Bin& list = bins_[bin];
    list.first = list.first == id ? larger : list.first;
    list.last = list.last == id ? smaller : list.last;
    list.recent = larger == no_block ? smaller : larger;
    std::uint64_t const is_empty = list.first == no_block ? 1 : 0;
    filled_[bin / 64] &= ~(is_empty << (bin % 64));
  }

  /// The first block of at least `size` bytes; no_block if there is none.
  BlockId lower_bound(BlockTable const& blocks, std::int64_t size) const {
    std::size_t const bin = bin_of(size);
    BlockId at = bins_[bin].first;
    while (blocks[at].size < size) at = blocks[at].larger;
    return at == no_block ? first_from(bin + 1) : at;
  }
  /// The block after one, or before one; no_block if there is none. Pre: the block is there.
  BlockId next(BlockTable const& blocks, BlockId id) const;
  BlockId before(BlockTable const& blocks, BlockId id) const;
  /// The largest block of all, at the highest address; no_block if there are none.
  BlockId last() const { return last_until(most_bins); }

  /// Appends all blocks to `found`, by size and address.
  void append_to(std::vector<BlockId>& found, BlockTable const& blocks) const;

 private:
  struct Bin {
    BlockId first = no_block;
    BlockId last = no_block;
    BlockId recent = no_block;  ///< the block at which it last changed
  };

  static bool is_before(Block const& block, Block const& other) {
    // Bit by bit: which of the two decides is not to be predicted.
    bool const is_lower = (block.size == other.size) & (block.address < other.address);
    return (block.size < other.size) | is_lower;
  }
  void insert_behind_first(BlockTable& blocks, Bin& bin, BlockId id);
  /// The first block of the bins from `bin` on, the last of those before.
  BlockId first_from(std::size_t bin) const {
    std::size_t word = bin / 64;
    if (word == bin_words) return no_block;
    std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (bin % 64));
    while (bits == 0) {
      if (++word == bin_words) return no_block;
      bits = filled_[word];
    }
    return bins_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))].first;
  }
  BlockId last_until(std::size_t bin) const;

  std::array<Bin, most_bins> bins_;
  std::array<std::uint64_t, bin_words> filled_{};  ///< a bit per bin
};

}  // namespace stagecraft
