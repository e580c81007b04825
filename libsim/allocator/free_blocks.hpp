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
/// blocks. A block is removed without a search, and the best fit is found by a search of one
/// bin. Most are added in front of their bin; the others by a search from the place of its last
/// change, because a bin often holds hundreds of blocks of one size, and blocks that are freed
/// together lie together.
///
/// Each list ends with the table's sentinel, which is larger than any block; an empty list is the
/// sentinel alone. Its own links may be written but mean nothing, so that the ends need no special
/// case. No block changes while it is there.
class FreeBlocks {
 public:
  static constexpr std::size_t bin_words = 32;
  static constexpr std::size_t most_bins = 64 * bin_words;

  /// `none`: the sentinel of the table that holds the blocks, which must outlive the object.
  explicit FreeBlocks(Block* none) : none_{none} { bins_.fill({none, none}); }

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
  void insert(Block* added) {
    std::size_t const bin = bin_of(added->size);
    added->bin = static_cast<std::uint16_t>(bin);
    Bin& list = bins_[bin];
    Block* const first = list.first;
    if (is_before(first, added)) {
      insert_behind_first(list, added);
      return;
    }
    added->smaller = none_;
    added->larger = first;
    first->smaller = added;
    list.first = list.recent = added;
    filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  }
  /// Pre: the block is there.
  void remove(Block const* removed) {
    std::size_t const bin = removed->bin;
    Block* const smaller = removed->smaller;
    Block* const larger = removed->larger;
    smaller->larger = larger;
    larger->smaller = smaller;
    // Without branches, which nobody could predict.
    Bin& list = bins_[bin];
    list.first = list.first == removed ? larger : list.first;
    list.recent = smaller;
    std::uint64_t const is_empty = list.first == none_ ? 1 : 0;
    filled_[bin / 64] &= ~(is_empty << (bin % 64));
  }

  /// The first block of at least `size` bytes; the sentinel if there is none, as in all below.
  Block* lower_bound(std::int64_t size) const { return lower_bound(size, bin_of(size)); }
  /// The same, given bin_of(size).
  Block* lower_bound(std::int64_t size, std::size_t bin) const {
    Block* at = bins_[bin].first;
    while (at->size < size) at = at->larger;
    return at == none_ ? first_from(bin + 1) : at;
  }
  /// The block after one. Pre: that one is there.
  Block* next(Block const* block) const {
    return block->larger == none_ ? first_from(std::size_t{block->bin} + 1) : block->larger;
  }
  /// The largest block of all, at the highest address.
  Block* last() const;

  /// Appends all blocks to `found`, by size and address.
  void append_to(std::vector<Block*>& found) const;

 private:
  struct Bin {
    Block* first;
    Block* recent;  ///< the block at which it last changed; the sentinel: `first`
  };

  static bool is_before(Block const* block, Block const* other) {
    // Bit by bit: which of the two decides is not to be predicted.
    bool const is_lower = (block->size == other->size) & (block->address < other->address);
    return (block->size < other->size) | is_lower;
  }
  void insert_behind_first(Bin& bin, Block* added);
  /// The first block of the bins from `bin` on.
  Block* first_from(std::size_t bin) const {
    std::size_t word = bin / 64;
    if (word == bin_words) return none_;
    std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (bin % 64));
    while (bits == 0) {
      if (++word == bin_words) return none_;
      bits = filled_[word];
    }
    return bins_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))].first;
  }

  Block* none_;
  std::array<Bin, most_bins> bins_;
  std::array<std::uint64_t, bin_words> filled_{};  ///< a bit per bin
};

}  // namespace stagecraft
