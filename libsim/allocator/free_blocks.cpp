#include "libsim/allocator/free_blocks.hpp"

namespace stagecraft {

void FreeBlocks::insert_behind_first(Bin& bin, Block* added) {
  Block* before = bin.recent == none_ ? bin.first : bin.recent;
  if (is_before(before, added)) {
    while (is_before(before->larger, added)) before = before->larger;
  } else {
    do before = before->smaller;
    while (!is_before(before, added));
  }
  added->smaller = before;
  added->larger = before->larger;
  before->larger = added;
  added->larger->smaller = added;
  bin.recent = added;
}

Block* FreeBlocks::last() const {
  for (std::size_t bin = most_bins; bin-- > 0;) {
    Block* last = bins_[bin].first;
    if (last == none_) continue;
    while (last->larger != none_) last = last->larger;
    return last;
  }
  return none_;
}

void FreeBlocks::append_to(std::vector<Block*>& found) const {
  for (Block* at = first_from(0); at != none_; at = next(at)) found.push_back(at);
}

}  // namespace stagecraft
