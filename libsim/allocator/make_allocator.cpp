#include "libsim/allocator/make_allocator.hpp"

#include "libsim/allocator/caching_allocator.hpp"
#include "libsim/allocator/sum_allocator.hpp"

namespace stagecraft {

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
