#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>

#include "libexec/comm/collective_reduction.hpp"

namespace stagecraft {

/// Consecutive elements of a member's source or target.
struct MovedPart {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
};

/// Whether the kind computes: a sum or a maximum of all members' tensors. All other kinds only move
/// elements, and sent_part() and received_part() say all about them.
constexpr bool computes(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::reduce_scatter ||
         kind == OpKind::prefix_reduce;
}

/// The part of its source that `member` sends to `to`, which may be itself, among so many members;
/// nullopt: nothing. Threads, MPI and NCCL all move what this function and the next one say.
/// Pre: !computes(collective.kind); `collective` is the member's own.
/// \throws std::logic_error  if the kind is not a collective.
inline std::optional<MovedPart> sent_part(Collective const& collective,
                                          int member,
                                          int to,
                                          int members) {
  switch (collective.kind) {
    case OpKind::all_gather:
      return MovedPart{0, collective.piece_begin(member + 1) - collective.piece_begin(member)};
    case OpKind::all_to_all:
      return MovedPart{collective.sent_begin(to), collective.sent_to(to)};
    case OpKind::ring_shift:
      if (to != shifted(member, collective.shift, members)) return std::nullopt;
      return MovedPart{0, collective.elements};
    default:
      throw std::logic_error{"not a collective that moves tensors"};
  }
}

/// The part of its target that `member` receives from `from`, which may be itself; see sent_part().
inline std::optional<MovedPart> received_part(Collective const& collective,
                                              int member,
                                              int from,
                                              int members) {
  switch (collective.kind) {
    case OpKind::all_gather:
      return MovedPart{collective.piece_begin(from),
                       collective.piece_begin(from + 1) - collective.piece_begin(from)};
    case OpKind::all_to_all:
      return MovedPart{collective.received_begin(from), collective.received_from(from)};
    case OpKind::ring_shift:
      if (from != shifted(member, -collective.shift, members)) return std::nullopt;
      return MovedPart{0, collective.elements};
    default:
      throw std::logic_error{"not a collective that moves tensors"};
  }
}

}  // namespace stagecraft
