#pragma once

#include <vector>

#include "libsim/allocator/allocator.hpp"
#include "libsim/allocator/block_table.hpp"

namespace stagecraft {

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
  BlockTable blocks_;  ///< that are live; of each only the size is known
};

}  // namespace stagecraft
