#pragma once

#include <cstdint>
#include <map>

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

}  // namespace stagecraft
