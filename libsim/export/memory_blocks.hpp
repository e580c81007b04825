#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// Addresses for blocks that come and go: the lowest place where a block fits, else the end. What
/// is live never overlaps.
class BlockArena {
 public:
  /// Where the block begins. Pre: size > 0.
  std::int64_t allocate(std::int64_t size);
  /// Pre: a live block of that size begins there.
  void release(std::int64_t address, std::int64_t size);

  /// Bytes from 0 to the end of what was ever live.
  std::int64_t size() const { return size_; }

 private:
  std::map<std::int64_t, std::int64_t> holes_;  ///< size by address; never two that touch
  std::int64_t size_ = 0;
};

/// The allocation or the release of a block of memory.
struct BlockEvent {
  bool is_allocation = false;
  std::int64_t time = 0;     ///< ps
  std::int64_t address = 0;  ///< from 0
  std::int64_t size = 0;
  Category category = Category::parameters;
  std::int64_t origin = -1;  ///< row of the op that ran at its allocation; -1 if before any op
};

/// A block that is not released before the end.
struct LiveBlock {
  std::int64_t address = 0;
  std::int64_t size = 0;
  Category category = Category::parameters;
  std::int64_t origin = -1;
};

/// The memory of a rank as blocks. A trace knows how much each category holds, but not which
/// buffers these are: each increase becomes a block; each decrease releases the oldest block of
/// exactly that size, or if there is none the newest ones, the last of them in part. After every
/// state the sums are those of the trace.
struct MemoryBlocks {
  std::vector<BlockEvent> events;  ///< by time
  std::vector<LiveBlock> live;     ///< by address
  std::int64_t arena = 0;          ///< bytes from the lowest to the highest address
};

/// `compute` is the index of the compute stream among the names.
MemoryBlocks memory_blocks(RankTrace const& rank, std::int64_t compute);

}  // namespace stagecraft
