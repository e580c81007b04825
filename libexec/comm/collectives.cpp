#include "libexec/comm/collectives.hpp"

#include "libexec/kernels/cpu/kernel_table.hpp"

namespace stagecraft {
namespace {

void sum_integers(std::span<void const* const> sources,
                  std::int64_t* target,
                  std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t sum = 0;
    for (void const* const source : sources) sum += static_cast<std::int64_t const*>(source)[i];
    target[i] = sum;
  }
}

}  // namespace

void reduce_members(Collective const& collective,
                    std::span<void const* const> sources,
                    void* target,
                    std::int64_t elements) {
  if (collective.type == ElementType::i64) {
    sum_integers(sources, static_cast<std::int64_t*>(target), elements);
    return;
  }
  WorkerPool alone{1};
  reduce_in_rank_order(alone, collective.reduction, collective.type, sources, target, elements);
}

}  // namespace stagecraft
