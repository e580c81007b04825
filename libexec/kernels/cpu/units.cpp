#include <cstdint>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/lanes.hpp"
#include "libexec/kernels/operands/unit_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {

void pack_unit(KernelContext const& context, KernelCall const& call) {
  for_copied_parts(call, [&]<typename From, typename To>(CopiedPart<From, To> const& part) {
    for_row_ranges(*context.pool, part.count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) part.to[i] = converted<To>(part.from[i]);
    });
  });
}

void unpack_unit(KernelContext const& context, KernelCall const& call) { pack_unit(context, call); }

}  // namespace stagecraft::STAGECRAFT_ISA
