#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nccl.h"

namespace stagecraft::nccl_emulation {

/// target[i] = sum, or maximum, of the ranks' sources[r][i], in an order of ranks that `draw`
/// decides and that is another for the next few elements, as with NCCL's rings. 16-bit elements are
/// summed in float and rounded once. Sources may lie anywhere; the target overlaps none.
void reduce(ncclDataType_t type,
            ncclRedOp_t reduction,
            std::span<std::byte const* const> sources,
            std::size_t count,
            std::uint64_t draw,
            void* target);

}  // namespace stagecraft::nccl_emulation
