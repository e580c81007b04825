#pragma once

#include <cstdint>
#include <vector>

#include "libsim/allocator/allocator.hpp"

namespace stagecraft {

/// A piece of a segment. The pieces of a segment follow each other without gaps.
struct alignas(64) Block {  // a cache line, of which the allocator touches few
  std::int64_t address = 0;
  std::int64_t requested = 0;  ///< between address and size, so that these are not copied at once
  std::int64_t size = 0;
  std::int64_t search = 0;  ///< searches of its pool before it became free; its age starts here
  BlockId previous = no_block;
  BlockId next = no_block;
  std::int32_t pool = 0;     ///< of its stream: 2 stream, plus 1 if large
  std::int32_t uses = -1;    ///< first of its recorded streams
  std::int32_t pending = 0;  ///< events that it waits for
  bool is_allocated = false;
  bool is_available = true;  ///< it may be given out, or joined with a neighbour
  bool is_mapped = true;     ///< false: address space of a growing segment without memory

  bool is_split() const { return previous != no_block || next != no_block; }
  bool is_large() const { return pool % 2 != 0; }
};

/// The blocks of an allocator by number. Numbers of removed blocks are used again. no_block
/// names a sentinel for a missing neighbour: it is never available, and its links mean nothing.
class BlockTable {
 public:
  BlockTable() : blocks_(1) { (*this)[no_block].is_available = false; }

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
  void remove(BlockId id) { unused_.push_back(id); }

  /// The numbers of all blocks that have not been removed.
  std::vector<BlockId> ids() const {
    std::vector<bool> is_used(blocks_.size() - 1, true);
    for (BlockId const id : unused_) is_used[static_cast<std::size_t>(id)] = false;
    std::vector<BlockId> result;
    for (std::size_t i = 0; i < is_used.size(); ++i) {
      if (is_used[i]) result.push_back(static_cast<BlockId>(i));
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
  BlockId take_number() {
    if (unused_.empty()) {
      blocks_.emplace_back();
      return static_cast<BlockId>(blocks_.size() - 2);
    }
    BlockId const id = unused_.back();
    unused_.pop_back();
    return id;
  }

  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;
};

}  // namespace stagecraft
