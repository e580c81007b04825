#include "libexec/comm/local_transport.hpp"

#include <cstring>
#include <stdexcept>

#include "libexec/comm/collective_reduction.hpp"

namespace stagecraft {
namespace {

/// Elements [begin, end) of the whole, reduced in rank order into `target`.
void reduce(std::vector<Collective> const& calls,
            std::int64_t begin,
            std::int64_t end,
            void* target) {
  ElementType const type = calls.front().type;
  std::vector<void const*> sources;
  sources.reserve(calls.size());
  for (Collective const& call : calls) sources.push_back(element_at(call.source, begin, type));
  reduce_members(calls.front(), sources, target, end - begin);
}

void copy_elements(void* target, void const* source, std::int64_t elements, ElementType type) {
  if (target == source) return;
  std::memcpy(target, source, static_cast<std::size_t>(elements * element_size(type)));
}

}  // namespace

void require_alike(std::vector<Collective> const& calls) {
  for (Collective const& call : calls) {
    if (!are_alike(call, calls.front())) {
      throw std::logic_error{"ranks of a group issue different collectives"};
    }
  }
}

void HostTransport::run(std::vector<Collective> const& calls) {
  require_alike(calls);
  Collective const& first = calls.front();
  auto const members = static_cast<std::int64_t>(calls.size());
  switch (first.kind) {
    case OpKind::all_reduce:
      reduce(calls, 0, first.elements, first.target);
      for (Collective const& call : calls) {
        copy_elements(call.target, first.target, first.elements, first.type);
      }
      return;
    case OpKind::reduce_scatter:
      for (std::int64_t i = 0; i < members; ++i) {
        Collective const& call = calls[static_cast<std::size_t>(i)];
        reduce(calls, call.piece_begin(i), call.piece_begin(i + 1), call.target);
      }
      return;
    case OpKind::all_gather:
      for (std::int64_t i = 0; i < members; ++i) {
        std::int64_t const begin = first.piece_begin(i);
        std::int64_t const count = first.piece_begin(i + 1) - begin;
        void const* const piece = calls[static_cast<std::size_t>(i)].source;
        for (Collective const& call : calls) {
          copy_elements(element_at(call.target, begin, first.type), piece, count, first.type);
        }
      }
      return;
    default:
      throw std::logic_error{"not a collective"};
  }
}

void HostTransport::copy(Message const& sent, Message const& received) {
  std::memcpy(received.data, sent.data, sent.bytes);
}

std::shared_ptr<void> HostTransport::keep(Message& sent) {
  auto const* const data = static_cast<std::byte const*>(sent.data);
  auto kept = std::make_shared<std::vector<std::byte>>(data, data + sent.bytes);
  sent.data = kept->data();
  return kept;
}

}  // namespace stagecraft
