#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>

#include "libexec/comm/collective_reduction.hpp"

namespace stagecraft {

/// What a collective copies from the source of one member to the target of another.
struct CollectiveMove {
  std::int64_t source = 0;  ///< first element, of the sender's source
  std::int64_t target = 0;  ///< first element, of the receiver's target
  std::int64_t elements = 0;
};

/// Whether the kind computes: a sum or a maximum of all members' tensors. All other kinds only move
/// elements, and move_between() says all about them.
constexpr bool computes(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::reduce_scatter ||
         kind == OpKind::prefix_reduce;
}

/// What `from` sends to `to`, which may be itself, among so many members; nullopt: nothing.
/// Threads, MPI and NCCL all move what this function says. Pre: !computes(collective.kind)
/// \throws std::logic_error  if the kind is no collective.
inline std::optional<CollectiveMove> move_between(Collective const& collective,
                                                  int from,
                                                  int to,
                                                  int members) {
  std::int64_t const elements = collective.elements;
  auto const piece = [&](int member) {
    return collective.piece_begin(member + 1) - collective.piece_begin(member);
  };
  switch (collective.kind) {
    case OpKind::all_gather:
      return CollectiveMove{0, collective.piece_begin(from), piece(from)};
    case OpKind::all_to_all:
      return CollectiveMove{collective.piece_begin(to), collective.piece_begin(from), piece(to)};
    case OpKind::ring_shift:
      if (to != shifted(from, collective.shift, members)) return std::nullopt;
      return CollectiveMove{0, 0, elements};
    default:
      throw std::logic_error{"not a collective that moves tensors"};
  }
}

}  // namespace stagecraft
