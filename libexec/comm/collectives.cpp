#include "libexec/comm/collectives.hpp"

#include <cstring>
#include <stdexcept>

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

std::string described(Collective const& collective) {
  std::string text{name_of(collective.kind)};
  text += " of " + std::to_string(collective.elements) + " elements of ";
  return text.append(name_of(collective.type));
}

void refuse_different(Collective const& own, std::string const& other) {
  throw std::logic_error{"ranks of group " + std::to_string(own.group.value()) +
                         " issue different collectives: " + described(own) + " and " + other};
}

void require_alike(std::vector<Collective> const& calls) {
  for (Collective const& call : calls) {
    if (!are_alike(call, calls.front())) refuse_different(calls.front(), described(call));
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
