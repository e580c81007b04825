#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libexec/comm/collective_moves.hpp"
#include "libexec/comm/collective_reduction.hpp"

namespace stagecraft {

/// Runs a collective whose members' tensors are all in one memory, directly from and into their
/// tensors. `calls` are in the order of members.
///
/// `reduce(sources, target, elements)` computes the sum, or the maximum, of the members' sources in
/// their order; `copy(target, source, elements)` copies between tensors that do not overlap. Both
/// know the reduction and the element type, which are the same in all calls.
template <typename Reduce, typename Copy>
void run_in_memory(std::vector<Collective> const& calls, Reduce const& reduce, Copy const& copy) {
  Collective const& first = calls.front();
  auto const copy_to = [&](void* target, void const* source, std::int64_t elements) {
    if (target != source && elements > 0) copy(target, source, elements);
  };
  // Reduces elements [begin, end) of the whole tensor.
  auto const reduce_part = [&](std::int64_t begin, std::int64_t end, void* target) {
    std::vector<void const*> sources;
    sources.reserve(calls.size());
    for (Collective const& call : calls) {
      sources.push_back(element_at(call.source, begin, first.type));
    }
    reduce(std::span<void const* const>{sources}, target, end - begin);
  };
  switch (first.kind) {
    case OpKind::all_reduce:
      reduce_part(0, first.elements, first.target);
      for (Collective const& call : calls) copy_to(call.target, first.target, first.elements);
      return;
    case OpKind::reduce_scatter:
      for (std::size_t i = 0; i < calls.size(); ++i) {
        auto const member = static_cast<std::int64_t>(i);
        reduce_part(first.piece_begin(member), first.piece_begin(member + 1), calls[i].target);
      }
      return;
    default: {
      auto const members = static_cast<int>(calls.size());
      for (int from = 0; from < members; ++from) {
        Collective const& sender = calls[static_cast<std::size_t>(from)];
        for (int to = 0; to < members; ++to) {
          Collective const& receiver = calls[static_cast<std::size_t>(to)];
          auto const sent = sent_part(sender, from, to, members);
          if (!sent) continue;
          MovedPart const received = received_part(receiver, to, from, members).value();
          if (sent->elements != received.elements) {
            throw std::logic_error{"a member sends another number of elements than is received"};
          }
          copy_to(element_at(receiver.target, received.begin, first.type),
                  element_at(sender.source, sent->begin, first.type), sent->elements);
        }
      }
    }
  }
}

}  // namespace stagecraft
