#include "libexec/comm/local_transport.hpp"

#include <cstring>
#include <stdexcept>

#include "libexec/comm/collectives.hpp"

namespace stagecraft {

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
  run_in_memory(
      calls,
      [&](std::span<void const* const> sources, void* target, std::int64_t elements) {
        reduce_members(first, sources, target, elements);
      },
      [&](void* target, void const* source, std::int64_t elements) {
        std::memcpy(target, source, static_cast<std::size_t>(elements * element_size(first.type)));
      });
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
