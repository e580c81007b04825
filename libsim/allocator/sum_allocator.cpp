#include "libsim/allocator/sum_allocator.hpp"

namespace stagecraft {

SumAllocator::SumAllocator(std::int64_t granule, std::int64_t capacity)
    : granule_{granule}, capacity_{capacity}, allowed_{capacity} {}

BlockId SumAllocator::allocate(std::int64_t bytes, std::int32_t) {
  std::int64_t const needed = in_granules(counters_.allocated + bytes);
  if (needed > counters_.reserved && !grow(needed)) {
    ++counters_.ooms;
    return no_block;
  }
  counters_.allocate(bytes, bytes);
  BlockId const block = blocks_.add();
  block->size = bytes;
  return block;
}

bool SumAllocator::grow(std::int64_t reserved) {
  if (reserved > allowed_ || reserved > capacity_ - foreign_) return false;
  counters_.reserve(reserved - counters_.reserved);
  counters_.segments = 1;
  counters_.device_used = reserved + foreign_;
  return true;
}

void SumAllocator::free(BlockId block) {
  std::int64_t const bytes = block->size;
  counters_.allocated -= bytes;
  counters_.active -= bytes;
  counters_.requested -= bytes;
  blocks_.remove(block);
}

void SumAllocator::empty_cache() {
  std::int64_t const needed = in_granules(counters_.allocated);
  if (needed == counters_.reserved) return;
  counters_.reserved = needed;
  counters_.segments = needed > 0 ? 1 : 0;
  counters_.device_used = needed + foreign_;
  ++counters_.device_free;
}

void SumAllocator::take_foreign(std::int64_t bytes) {
  constexpr std::int64_t page = std::int64_t{2} << 20;
  foreign_ += (bytes + page - 1) / page * page;
  counters_.device_used = counters_.reserved + foreign_;
}

void SumAllocator::set_memory_fraction(double fraction) {
  allowed_ = fraction < 1 ? static_cast<std::int64_t>(fraction * static_cast<double>(capacity_))
                          : capacity_;
}

bool SumAllocator::append_state(std::vector<std::int64_t>& state) const {
  state.insert(state.end(), {counters_.allocated, counters_.reserved, foreign_, allowed_});
  return true;
}

}  // namespace stagecraft
