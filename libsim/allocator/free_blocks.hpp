#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace stagecraft {

/// A free block, as the search for one sees it.
struct FreeBlock {
  std::int64_t size = 0;     ///< a positive multiple of 512
  std::int64_t address = 0;  ///< ties of size go to the lowest
  std::int32_t block = -1;   ///< what the caller calls it

  bool is_before(FreeBlock const& other) const {
    return size != other.size ? size < other.size : address < other.address;
  }
};

/// The free blocks of one pool and stream, ordered by size, then address.
///
/// Sizes fall into bins, eight between two powers of two, each a sorted array: searching, adding
/// and removing touch one or two short arrays and allocate nothing once these have grown.
class FreeBlocks {
 public:
  /// A position in the order.
  struct Cursor {
    std::size_t bin = bins_;
    std::size_t place = 0;
  };

  FreeBlocks() : entries_(bins_) {}

  void insert(FreeBlock const& block);
  /// Pre: the block is there.
  void remove(FreeBlock const& block);

  /// The first block of at least `size` bytes; is_end() if there is none.
  Cursor lower_bound(std::int64_t size) const;
  Cursor next(Cursor at) const;
  /// The largest block of all, at the highest address; is_end() if there are none.
  Cursor last() const;
  /// The block before the cursor, which may be the end; is_end() if there is none.
  Cursor before(Cursor at) const;
  bool is_end(Cursor at) const { return at.bin == bins_; }
  FreeBlock const& operator[](Cursor at) const { return entries_[at.bin][at.place]; }

  /// Appends all blocks to `blocks`, by size and address.
  void append_to(std::vector<FreeBlock>& blocks) const;

 private:
  static constexpr std::size_t bins_ = 288;
  static constexpr std::size_t words_ = (bins_ + 63) / 64;

  static std::size_t bin_of(std::int64_t size);
  /// The first bin from `bin` on that holds a block.
  Cursor first_from(std::size_t bin) const;

  std::vector<std::vector<FreeBlock>> entries_;
  std::array<std::uint64_t, words_> filled_{};  ///< a bit per bin
};

}  // namespace stagecraft
