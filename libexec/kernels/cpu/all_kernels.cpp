#include <algorithm>

#include "libexec/kernels/cpu/kernel_table.hpp"
#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

constexpr KernelTable make_table() {
  KernelTable table;
#define STAGECRAFT_SET_cpu(kind) table.by_kind[static_cast<std::size_t>(OpKind::kind)] = kind;
#define STAGECRAFT_SET_none(kind)
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  STAGECRAFT_SET_##cpu_kernel(kind)
#include "libsim/program/op_kinds.def"
#undef STAGECRAFT_SET_cpu
#undef STAGECRAFT_SET_none
  table.reduce = reduce;
  return table;
}

constexpr KernelTable table = make_table();

/// The number of elements that are reduced at a time, few enough for registers and caches.
constexpr std::int64_t reduced_chunk = 512;

template <typename S>
void reduce_chunk(Reduction reduction,
                  std::span<void const* const> sources,
                  S* destination,
                  std::int64_t first,
                  std::int64_t n) {
  using C = Compute<S>;
  C result[reduced_chunk];
  S const* const start = static_cast<S const*>(sources.front()) + first;
  for (std::int64_t i = 0; i < n; ++i) result[i] = widen(start[i]);
  for (void const* const source : sources.subspan(1)) {
    S const* const x = static_cast<S const*>(source) + first;
    if (reduction == Reduction::sum) {
      for (std::int64_t i = 0; i < n; ++i) result[i] += widen(x[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        C const value = widen(x[i]);
        // A NaN on either side is kept.
        result[i] = value > result[i] || value != value ? value : result[i];
      }
    }
  }
  for (std::int64_t i = 0; i < n; ++i) destination[first + i] = narrow<S>(result[i]);
}

}  // namespace

KernelTable const& all_kernels() { return table; }

void reduce(WorkerPool& pool,
            Reduction reduction,
            ElementType type,
            std::span<void const* const> sources,
            void* destination,
            std::int64_t elements) {
  if (sources.empty()) refuse(OpKind::all_reduce, "there is nothing to reduce");
  auto const cost = static_cast<std::int64_t>(sources.size()) * reduced_chunk;
  with_storage_type(OpKind::all_reduce, type, [&](auto tag) {
    using S = decltype(tag);
    std::int64_t const chunks = (elements + reduced_chunk - 1) / reduced_chunk;
    for_row_ranges(pool, chunks, cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        reduce_chunk(reduction, sources, static_cast<S*>(destination), i * reduced_chunk,
                     std::min(reduced_chunk, elements - i * reduced_chunk));
      }
    });
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
