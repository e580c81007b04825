#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace stagecraft {

/// A free block, as the search for one sees it.
struct FreeBlock {
  std::int64_t size = 0;     ///< a positive multiple of 512
  std::int64_t address = 0;  ///< ties of size go to the lowest
  std::int32_t block = -1;   ///< what the caller calls it: a number from 0

  bool is_before(FreeBlock const& other) const {
    return size != other.size ? size < other.size : address < other.address;
  }
};

/// The free blocks of one pool and stream, ordered by size, then address.
///
/// Sizes fall into bins, 64 between two powers of two, each a sorted list whose links stand in an
/// array by block. A block is removed, and the best fit is found, without a search but within a
/// bin. One is added by a search of its bin that begins where its last block was added or removed:
/// a bin often holds hundreds of blocks of one size, and what is freed together lies together.
class FreeBlocks {
 public:
  /// In place of a block: there is none.
  static constexpr std::int32_t none = -1;

  FreeBlocks() : first_(bins_, none), recent_(bins_, none) {}

  /// Pre: no block of that number is there.
  void insert(FreeBlock const& block) {
    auto const index = static_cast<std::size_t>(block.block);
    if (nodes_.size() <= index) nodes_.resize(index + 1);
    std::size_t const bin = bin_of(block.size);
    // Field by field: a copy of the whole would wait for what the caller has just written.
    Node& added = nodes_[index];
    added.free.size = block.size;
    added.free.address = block.address;
    added.free.block = block.block;
    std::int32_t const first = first_[bin];
    if (first == none) {
      added.next = added.previous = block.block;
      first_[bin] = block.block;
      recent_[bin] = block.block;
      filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
      filled_words_ |= std::uint64_t{1} << (bin / 64);
    } else {
      insert_among(bin, first, added);
    }
  }
  /// Pre: the block is there.
  void remove(std::int32_t block) {
    Node const& removed = node(block);
    std::size_t const bin = bin_of(removed.free.size);
    if (removed.next == block) {
      first_[bin] = none;
      filled_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
      if (filled_[bin / 64] == 0) filled_words_ &= ~(std::uint64_t{1} << (bin / 64));
      return;
    }
    if (first_[bin] == block) first_[bin] = removed.next;
    recent_[bin] = removed.next;
    node(removed.previous).next = removed.next;
    node(removed.next).previous = removed.previous;
  }

  /// The first block of at least `size` bytes; none if there is none.
  std::int32_t lower_bound(std::int64_t size) const {
    std::size_t const bin = bin_of(size);
    std::int32_t const first = first_[bin];
    if (first == none) return first_from(bin + 1);
    for (std::int32_t at = first;;) {
      Node const& found = node(at);
      if (found.free.size >= size) return at;
      at = found.next;
      if (at == first) return first_from(bin + 1);
    }
  }
  /// The block after one, or before one; none if there is none.
  std::int32_t next(std::int32_t block) const;
  std::int32_t before(std::int32_t block) const;
  /// The largest block of all, at the highest address; none if there are none.
  std::int32_t last() const { return last_until(bins_); }
  /// Pre: the block is there.
  FreeBlock const& operator[](std::int32_t block) const { return node(block).free; }

  /// Appends all blocks to `blocks`, by size and address.
  void append_to(std::vector<FreeBlock>& blocks) const;

 private:
  /// A block in the ring of its bin.
  struct Node {
    FreeBlock free;
    std::int32_t previous = none;
    std::int32_t next = none;
  };

  static constexpr int divisions_ = 6;  // 2^6 bins between two powers of two
  static constexpr std::size_t words_ = 64;
  static constexpr std::size_t bins_ = 64 * words_;

  /// Rises with the size. Up to 64 KiB, sizes have bins of their own.
  static std::size_t bin_of(std::int64_t size) {
    auto const units = static_cast<std::uint64_t>(size) >> 9;
    int const power = static_cast<int>(std::bit_width(units)) - 1;
    if (power < divisions_) return units;
    int const dropped = power - divisions_;
    return (static_cast<std::size_t>(dropped) << divisions_) + (units >> dropped);
  }
  Node& node(std::int32_t block) { return nodes_[static_cast<std::size_t>(block)]; }
  Node const& node(std::int32_t block) const { return nodes_[static_cast<std::size_t>(block)]; }

  void insert_among(std::size_t bin, std::int32_t first, Node& added);
  /// The first block of a bin behind one that is neither its first nor its last.
  std::int32_t following(std::size_t bin, std::int32_t first, FreeBlock const& block) const;
  /// The first block of the bins from `bin` on, the last of those before.
  std::int32_t first_from(std::size_t bin) const {
    std::size_t word = bin / 64;
    if (word == words_) return none;
    std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << (bin % 64));
    if (bits == 0) {
      if (word + 1 == words_) return none;
      std::uint64_t const words = filled_words_ & (~std::uint64_t{0} << (word + 1));
      if (words == 0) return none;
      word = static_cast<std::size_t>(std::countr_zero(words));
      bits = filled_[word];
    }
    return first_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
  }
  std::int32_t last_until(std::size_t bin) const;

  std::vector<Node> nodes_;                     ///< by block
  std::vector<std::int32_t> first_;             ///< by bin
  std::vector<std::int32_t> recent_;            ///< by bin: the block at which it last changed
  std::array<std::uint64_t, words_> filled_{};  ///< a bit per bin
  std::uint64_t filled_words_ = 0;              ///< a bit per word of filled_
};

}  // namespace stagecraft
