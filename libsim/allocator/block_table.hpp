#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "libsim/allocator/allocator.hpp"

namespace stagecraft {

/// A piece of a segment. The pieces of a segment follow each other without gaps.
struct alignas(64) Block {  // a cache line, all that most requests touch of a block
  std::int64_t address = 0;
  std::int64_t requested = 0;  ///< between address and size, so that these are not copied at once
  std::int64_t size = 0;
  std::int64_t search = 0;  ///< searches of its pool before it became free; its age starts here
  BlockId previous = no_block;
  BlockId next = no_block;
  BlockId smaller = no_block;  ///< its neighbours among the free blocks of its bin
  BlockId larger = no_block;
  std::int32_t pool = 0;     ///< of its stream: 2 stream, plus 1 if large
  std::int32_t uses = -1;    ///< first of its recorded streams
  std::int32_t pending = 0;  ///< events that it waits for
  std::uint16_t bin = 0;     ///< the bin that it is in, if it is free
  bool is_allocated : 1 = false;
  bool is_available : 1 = true;  ///< it may be given out, or joined with a neighbour
  bool is_mapped : 1 = true;     ///< false: address space of a growing segment without memory

  bool is_split() const { return previous != no_block || next != no_block; }
  bool is_large() const { return pool % 2 != 0; }
};
static_assert(sizeof(Block) == 64);

/// The blocks of an allocator by number. Numbers of removed blocks are used again. no_block
/// names a sentinel for a missing neighbour: it is never available, larger than any block, and its
/// links mean nothing.
class BlockTable {
 public:
  BlockTable() : blocks_(1) {
    (*this)[no_block].is_available = false;
    (*this)[no_block].size = std::numeric_limits<std::int64_t>::max();
  }

  Block& operator[](BlockId id) { return blocks_[static_cast<std::size_t>(id) + 1]; }
  Block const& operator[](BlockId id) const { return blocks_[static_cast<std::size_t>(id) + 1]; }

  BlockId add(Block const& block) {
    BlockId const id = take_number();
    (*this)[id] = block;
    return id;
  }
  /// Adds what is behind the first `size` bytes of a block, and ends that one there.
  BlockId split(BlockId id, std::int64_t size) {
    BlockId const rest_id = take_number();
    Block& block = (*this)[id];
    Block& rest = (*this)[rest_id];
    // Field by field: a copy of the whole would wait for what has just been written.
    rest.address = block.address + size;
    rest.size = block.size - size;
    rest.requested = block.requested;
    rest.search = block.search;
    rest.previous = id;
    rest.next = block.next;
    rest.pool = block.pool;
    rest.uses = block.uses;
    rest.pending = block.pending;
    rest.is_allocated = block.is_allocated;
    rest.is_available = block.is_available;
    rest.is_mapped = block.is_mapped;
    (*this)[rest.next].previous = rest_id;
    block.size = size;
    block.next = rest_id;
    return rest_id;
  }
  void remove(BlockId id) {
    Block& block = (*this)[id];
    block.pool = removed;
    block.next = unused_;
    unused_ = id;
  }

  /// The numbers of all blocks that have not been removed.
  std::vector<BlockId> ids() const {
    std::vector<BlockId> result;
    for (BlockId id = 0; id < static_cast<BlockId>(blocks_.size()) - 1; ++id) {
      if ((*this)[id].pool != removed) result.push_back(id);
    }
    return result;
  }

  /// Puts `id` between its neighbours, which its own fields name.
  void link(BlockId id) {
    Block const& block = (*this)[id];
    (*this)[block.previous].next = id;
    (*this)[block.next].previous = id;
  }

 private:
  static constexpr std::int32_t removed = -1;  ///< Block::pool of unused numbers

  BlockId take_number() {
    if (unused_ == no_block) {
      blocks_.emplace_back();
      return static_cast<BlockId>(blocks_.size() - 2);
    }
    BlockId const id = unused_;
    unused_ = (*this)[id].next;
    return id;
  }

  std::vector<Block> blocks_;
  BlockId unused_ = no_block;  ///< first of the removed blocks, which `next` chains
};

}  // namespace stagecraft
