#include "libsim/allocator/make_allocator.hpp"

#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/block_table.hpp"
#include "libsim/allocator/caching_allocator.hpp"

namespace stagecraft {

namespace {

/// An allocator without fragmentation: what it reserves is the largest sum of what was live.
///
/// With a granule of 1 byte it is the executor's arena. With one of 2 MiB, the driver's physical
/// page, it is a lower bound of cudaMallocAsync: the driver's pool keeps all that it has taken
/// until the cache is emptied, but how it places blocks is not published. Freed blocks are reusable
/// at once, since the driver orders reuse itself.
/// Source: CUDA Programming Guide, stream-ordered memory allocator; PyTorch sets the pool's release
/// threshold to its maximum (c10/cuda/CUDAMallocAsyncAllocator.cpp).
class SumAllocator final : public Allocator {
 public:
  SumAllocator(std::int64_t granule, std::int64_t capacity);

  BlockId allocate(std::int64_t bytes, std::int32_t stream) override;
  void record_stream(BlockId, std::int32_t) override {}
  void free(BlockId block) override;
  void empty_cache() override;
  void take_foreign(std::int64_t bytes) override;
  void set_memory_fraction(double fraction) override;
  void advance(std::int64_t) override {}
  void set_event_delay(std::int64_t) override {}
  bool append_state(std::vector<std::int64_t>& state) const override;

 private:
  std::int64_t in_granules(std::int64_t bytes) const {
    return (bytes + granule_ - 1) / granule_ * granule_;
  }
  bool grow(std::int64_t reserved);

  std::int64_t granule_;
  std::int64_t capacity_;
  std::int64_t allowed_;
  std::int64_t foreign_ = 0;
  BlockTable blocks_;  ///< live blocks; only their sizes are known
};

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

}  // namespace

std::unique_ptr<Allocator> make_allocator(AllocatorKind kind,
                                          AllocatorSettings const& settings,
                                          std::int64_t capacity) {
  bool const is_async = settings.backend == AllocatorSettings::Backend::cuda_malloc_async;
  if (kind == AllocatorKind::pytorch && !is_async) {
    return std::make_unique<CachingAllocator>(settings, capacity);
  }
  constexpr std::int64_t physical_page = std::int64_t{2} << 20;
  return std::make_unique<SumAllocator>(kind == AllocatorKind::arena ? 1 : physical_page, capacity);
}

}  // namespace stagecraft
