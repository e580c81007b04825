#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libexec/comm/communicator.hpp"

namespace stagecraft {

/// target[i] = sum, or maximum, of source[i] over the members in their order, with the reduction
/// and type of `collective`. The threads and MPI communicators both use it, so that their results
/// are equal bit for bit.
///
/// The target may be one of the sources, but must not overlap one otherwise.
void reduce_members(Collective const& collective,
                    std::span<void const* const> sources,
                    void* target,
                    std::int64_t elements);

/// The address of an element of a tensor.
inline std::byte* element_at(void* data, std::int64_t element, ElementType type) {
  return static_cast<std::byte*>(data) + element * element_size(type);
}
inline std::byte const* element_at(void const* data, std::int64_t element, ElementType type) {
  return static_cast<std::byte const*>(data) + element * element_size(type);
}

/// The member that is `by` behind another one, around.
constexpr int shifted(int member, int by, int members) {
  return ((member + by) % members + members) % members;
}

/// Whether two members issue the same collective.
inline bool are_alike(Collective const& a, Collective const& b) {
  return a.kind == b.kind && a.type == b.type && a.elements == b.elements &&
         a.reduction == b.reduction && a.piece == b.piece && a.origin == b.origin &&
         a.members_together == b.members_together && a.shift == b.shift &&
         a.has_uneven_pieces() == b.has_uneven_pieces();
}

}  // namespace stagecraft
