#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace stagecraft {

/// A free block, as the search for one sees it.
struct FreeBlock {
  std::int64_t size = 0;     ///< a positive multiple of 512
  std::int64_t address = 0;  ///< ties of size go to the lowest
  std::int32_t block = -1;   ///< what the caller calls it: a number from 0
};

/// The free blocks of one pool and stream, ordered by size, then address.
///
/// Sizes fall into bins, 64 between two powers of two, each a sorted list whose links stand in an
/// array by block. A block is removed, and the best fit is found, without a search but within a
/// bin. Most are added in front of their bin; the others by a search from the closest of its
/// two ends and the place of its last change, because a bin often holds hundreds of blocks of one
/// size, and blocks that are freed together lie together.
///
/// Each list ends with a sentinel that is larger than any block; an empty list is the sentinel
/// alone. Its own links may be written but mean nothing, so that ends are no case of their own.
class FreeBlocks {
 public:
  /// In place of a block: there is none.
  static constexpr std::int32_t none = -1;

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

  FreeBlocks() : nodes_(1), bins_(most_bins) {
    node(none).size = std::numeric_limits<std::int64_t>::max();
  }

  /// Pre: no block of that number is there.
  void insert(std::int32_t block, std::int64_t size, std::int64_t address) {
    auto const index = static_cast<std::size_t>(block);
    if (nodes_.size() <= index + 1) nodes_.resize(index + 2);
    std::size_t const bin = bin_of(size);
    Node& added = node(block);
    added.size = size;
    added.address = address;
    added.bin = static_cast<std::int32_t>(bin);
    Bin& list = bins_[bin];
    std::int32_t const first = list.first;
    if (node(first).is_before(size, address)) {
      insert_behind_first(list, block);
      return;
    }
    added.previous = none;
    added.next = first;
    node(first).previous = block;
    list.first = list.recent = block;
    list.last = first == none ? block : list.last;
    filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
    filled_words_ |= std::uint64_t{1} << (bin / 64);
  }
  /// Pre: the block is there.
  void remove(std::int32_t block) {
    Node const& removed = node(block);
    auto const bin = static_cast<std::size_t>(removed.bin);
    std::int32_t const previous = removed.previous;
    std::int32_t const next = removed.next;
    node(previous).next = next;
    node(next).previous = previous;
    // Without branches, which nobody could predict.
    Bin& list = bins_[bin];
    list.first = list.first == block ? next : list.first;
    list.last = list.last == block ? previous : list.last;
    list.recent = next == none ? previous : next;
    std::uint64_t const is_empty = list.first == none ? 1 : 0;
    std::uint64_t const filled = filled_[bin / 64] & ~(is_empty << (bin % 64));
    filled_[bin / 64] = filled;
    filled_words_ &= ~((filled == 0 ? std::uint64_t{1} : 0) << (bin / 64));
  }

  /// The first block of at least `size` bytes; none if there is none.
  std::int32_t lower_bound(std::int64_t size) const {
    std::size_t const bin = bin_of(size);
    std::int32_t at = bins_[bin].first;
    while (node(at).size < size) at = node(at).next;
    return at == none ? first_from(bin + 1) : at;
  }
  /// The block after one, or before one; none if there is none.
  std::int32_t next(std::int32_t block) const;
  std::int32_t before(std::int32_t block) const;
  /// The largest block of all, at the highest address; none if there are none.
  std::int32_t last() const { return last_until(most_bins); }
  /// Pre: the block is there.
  std::int64_t size_of(std::int32_t block) const { return node(block).size; }

  /// Appends all blocks to `blocks`, by size and address.
  void append_to(std::vector<FreeBlock>& blocks) const;

 private:
  /// A block in the list of its bin. Size and address are not neighbours, so that no compiler
  /// copies both at once, which would wait for the one that has just been written.
  struct Node {
    std::int64_t size = 0;
    std::int32_t previous = none;
    std::int32_t next = none;
    std::int64_t address = 0;
    std::int32_t bin = 0;

    bool is_before(std::int64_t other_size, std::int64_t other_address) const {
      // Bit by bit: which of the two decides is not to be predicted.
      bool const is_lower = (size == other_size) & (address < other_address);
      return (size < other_size) | is_lower;
    }
  };

  struct Bin {
    std::int32_t first = none;
    std::int32_t last = none;
    std::int32_t recent = none;  ///< the block at which it last changed
  };

  /// That of none stands in front.
  Node& node(std::int32_t block) { return nodes_[static_cast<std::size_t>(block) + 1]; }
  Node const& node(std::int32_t block) const { return nodes_[static_cast<std::size_t>(block) + 1]; }

  void insert_behind_first(Bin& bin, std::int32_t block);
  /// The first block of the bins from `bin` on, the last of those before.
  std::int32_t first_from(std::size_t bin) const {
    std::size_t word = bin / 64;
    if (word == bin_words) return none;
    std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (bin % 64));
    if (bits == 0) {
      if (word + 1 == bin_words) return none;
      std::uint64_t const words = filled_words_ & (~std::uint64_t{0} << (word + 1));
      if (words == 0) return none;
      word = static_cast<std::size_t>(std::countr_zero(words));
      bits = filled_[word];
    }
    return bins_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))].first;
  }
  std::int32_t last_until(std::size_t bin) const;

  std::vector<Node> nodes_;  ///< by block
  std::vector<Bin> bins_;
  std::array<std::uint64_t, bin_words> filled_{};  ///< a bit per bin
  std::uint64_t filled_words_ = 0;                 ///< a bit per word of filled_
};

}  // namespace stagecraft
