#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libsim/ranks/rank_groups.hpp"

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

/// The member `by` places after another one, counted around the group.
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

/// "all_reduce of 8 elements of fp32"
std::string described(Collective const& collective);

/// Throws that members of a group issue different collectives: `own` and `other`, in words.
[[noreturn]] void refuse_different(Collective const& own, std::string const& other);

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

/// The part of its source that `member` of `members` sends to `to`, which may be itself. Returns
/// nullopt if it sends nothing. Threads, MPI and NCCL all follow this function and the next one.
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

/// Moves the tensors of ranks that are threads of one process. The caller ensures that nothing else
/// reads or writes them meanwhile.
class LocalTransport {
 public:
  virtual ~LocalTransport() = default;

  /// Runs a collective that all members of a group have issued, directly from and into their
  /// tensors. `calls` are in the order of members.
  /// \throws std::logic_error  if the members disagree.
  virtual void run(std::vector<Collective> const& calls) = 0;

  /// Copies a message whose two ends are posted.
  virtual void copy(Message const& sent, Message const& received) = 0;

  /// Buffers a message whose receiver has not posted yet. `sent` then points to the returned
  /// buffer, which must live until the message is copied.
  virtual std::shared_ptr<void> keep(Message& sent) = 0;
};

/// The transport between tensors in host memory. Its calls return when everything is done.
class HostTransport final : public LocalTransport {
 public:
  void run(std::vector<Collective> const& calls) override;
  void copy(Message const& sent, Message const& received) override;
  std::shared_ptr<void> keep(Message& sent) override;
};

/// Checks that the members of a group agree before their tensors are reduced.
/// \throws std::logic_error  unless all calls are of the same collective.
void require_alike(std::vector<Collective> const& calls);

/// Makes the communicator that orders `inside` against the streams of a rank's device. Returns null
/// if the device has none, because its kernels are over when their call returns. `is_virtual`:
/// communication takes its modelled duration. All arguments must outlive the result.
std::unique_ptr<Communicator> make_device_communicator(Communicator& inside,
                                                       RankGroups const& groups,
                                                       Backend& backend,
                                                       bool is_virtual);

/// Makes the transport between ranks that are threads of this process and share a device.
/// `machine`: with a virtual clock, the mutex that a rank holds while it computes; otherwise null.
/// \throws DeviceError  if the program was built without the device.
std::unique_ptr<LocalTransport> make_local_transport(DeviceKind device, std::mutex* machine);

}  // namespace stagecraft
