#include "libsim/export/block_arena.hpp"

#include <iterator>

namespace stagecraft {

std::int64_t BlockArena::allocate(std::int64_t size) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    auto const [address, free] = *hole;
    if (free < size) continue;
    holes_.erase(hole);
    if (free > size) holes_.emplace(address + size, free - size);
    return address;
  }
  // A hole at the end is made larger.
  std::int64_t address = size_;
  if (!holes_.empty()) {
    auto const last = std::prev(holes_.end());
    if (last->first + last->second == size_) {
      address = last->first;
      holes_.erase(last);
    }
  }
  size_ = address + size;
  return address;
}

void BlockArena::release(std::int64_t address, std::int64_t size) {
  auto const next = holes_.upper_bound(address);
  if (next != holes_.end() && next->first == address + size) {
    size += next->second;
    holes_.erase(next);
  }
  auto const after = holes_.lower_bound(address);
  if (after != holes_.begin()) {
    auto const before = std::prev(after);
    if (before->first + before->second == address) {
      before->second += size;
      return;
    }
  }
  holes_.emplace(address, size);
}

}  // namespace stagecraft
