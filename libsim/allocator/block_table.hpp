#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "libsim/allocator/allocator.hpp"

namespace stagecraft {

struct StreamPool;

/// A piece of a segment. The pieces of a segment follow each other without gaps.
struct Block {
  std::int64_t address = 0;
  std::int64_t size = 0;
  Block* previous = nullptr;  ///< never null in a BlockTable: none() is the missing neighbour
  Block* next = nullptr;
  Block* smaller = nullptr;  ///< its neighbours among the free blocks of its bin
  Block* larger = nullptr;
  StreamPool* pool = nullptr;  ///< the pool that owns it, free or not
  std::int64_t requested = 0;
  std::uint16_t bin = 0;  ///< the bin that it is in, if it is free
  bool is_allocated = false;
  bool is_available = true;  ///< it may be given out, or joined with a neighbour
  bool is_mapped = true;     ///< false: address space of a growing segment without memory
  bool is_removed = false;
  // What finding and splitting a block do not read stands last.
  std::int64_t search = 0;   ///< searches before it became free; its age starts here
  std::int32_t uses = -1;    ///< first of its recorded streams
  std::int32_t pending = 0;  ///< events that it waits for
};

/// The blocks of an allocator, which stay where they are. A sentinel stands for a missing
/// neighbour: it is never available, larger than any block, and its links mean nothing.
class BlockTable {
 public:
  BlockTable() {
    none_.is_available = false;
    none_.size = std::numeric_limits<std::int64_t>::max();
  }
  BlockTable(BlockTable const&) = delete;  // blocks point to the sentinel
  BlockTable& operator=(BlockTable const&) = delete;
  BlockTable(BlockTable&&) = delete;
  BlockTable& operator=(BlockTable&&) = delete;
  ~BlockTable() = default;

  Block* none() { return &none_; }
  Block const* none() const { return &none_; }
  bool is_split(Block const* block) const {
    return (block->previous != &none_) | (block->next != &none_);
  }
  /// The size of a block that is split; 0 for others. A product, because no branch could be
  /// predicted.
  std::int64_t split_bytes(Block const* block) const { return block->size * is_split(block); }

  /// A new block without neighbours.
  Block* add() {
    Block* const block = take();
    *block = {};
    block->previous = block->next = &none_;
    return block;
  }
  /// Adds what is behind the first `size` bytes of a block, and ends that one there.
  Block* split(Block* block, std::int64_t size) {
    Block* const rest = take();
    // Field by field: a copy of the whole would wait for what has just been written.
    rest->address = block->address + size;
    rest->size = block->size - size;
    rest->previous = block;
    rest->next = block->next;
    rest->requested = block->requested;
    rest->pool = block->pool;
    rest->is_allocated = block->is_allocated;
    rest->is_available = block->is_available;
    rest->is_mapped = block->is_mapped;
    rest->is_removed = false;
    rest->search = block->search;
    rest->uses = block->uses;
    rest->pending = block->pending;
    rest->next->previous = rest;
    block->size = size;
    block->next = rest;
    return rest;
  }
  void remove(Block* block) {
    block->is_removed = true;
    block->next = unused_;
    unused_ = block;
  }

  /// All blocks that have not been removed.
  std::vector<Block const*> all() const {
    std::vector<Block const*> result;
    for (Block const& block : blocks_) {
      if (!block.is_removed) result.push_back(&block);
    }
    return result;
  }

 private:
  Block* take() {
    if (unused_ == nullptr) return &blocks_.emplace_back();
    Block* const block = unused_;
    unused_ = block->next;
    return block;
  }

  std::deque<Block> blocks_;
  Block none_;
  Block* unused_ = nullptr;  ///< first of the removed blocks, which `next` chains
};

}  // namespace stagecraft
