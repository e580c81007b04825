#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>

#include "libsim/program/op.hpp"
#include "libsim/schedule/pipeline_schedule.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A rank's part in a call between devices whose streams order it; theirs alone (device_call.hpp).
struct DeviceCall;

/// MPI or NCCL has failed, or is not part of this build. The message quotes the library.
class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The marks of a DeviceTimeline, by number, between which something ran.
struct MarkSpan {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

/// When something began and ended, since the start of the iteration.
struct TimeSpan {
  SimTime start{0};
  SimTime end{0};
  /// Set on a device that works asynchronously to its host: the times, which are 0, become those of
  /// the marks when the iteration is over.
  std::optional<MarkSpan> marks{};
};

/// From the start of `first` to the end of `last`.
inline TimeSpan joined(TimeSpan const& first, TimeSpan const& last) {
  TimeSpan all{first.start, last.end};
  if (first.marks && last.marks) all.marks = {first.marks->start, last.marks->end};
  return all;
}

/// A collective that a member has started.
struct StartedCollective {
  GroupId group{};
  std::int64_t ticket = 0;  ///< Communicator::Ticket
};

/// One collective, as one member of its group issues it. Members issue the collectives of a group
/// in the same order.
struct Collective {
  OpKind kind = OpKind::all_reduce;  ///< one of the collectives
  GroupId group{};                   ///< one of the plan's groups
  Reduction reduction = Reduction::sum;
  ElementType type = ElementType::f32;
  void const* source = nullptr;  ///< all_gather: this member's piece; otherwise the whole tensor
  void* target = nullptr;     ///< reduce_scatter: this member's piece; otherwise the whole tensor
  std::int64_t elements = 0;  ///< of the whole tensor
  /// Pieces: member i has elements [i * piece - origin, (i + 1) * piece - origin) of the whole, as
  /// far as they exist.
  /// all_to_all: all pieces are of one size; member i gets piece i of every member.
  std::int64_t piece = 0;
  std::int64_t origin = 0;
  /// prefix_reduce: the number of consecutive members, those of a stage, that get one result.
  int members_together = 1;
  /// all_to_all with pieces of different sizes, which then follow each other without gaps: by
  /// member, the elements of the piece for it, and of the piece from it. Valid until the end.
  std::int64_t const* sent = nullptr;
  std::int64_t const* received = nullptr;
  /// all_gather, reduce_scatter: the elements of each member's piece if they differ. Valid until
  /// the end.
  std::int64_t const* pieces = nullptr;
  /// If the tensor has counts of rows: the most that the arriving ones may add up to; else 0. Only
  /// a rank that runs alone needs it, because it makes them up.
  std::int64_t most_rows = 0;
  int shift = 1;        ///< ring_shift: member i gets the source of member i - shift, around
  SimTime issued{0};    ///< when this member is ready for it
  SimTime duration{0};  ///< on the virtual clock
  Name op{};            ///< the op's name in the plan, for errors; empty between iterations
  bool in_host_memory = false;  ///< source and target are in host memory, whatever the device
  /// What it waits for on its stream, while the member goes on. Not finished yet.
  std::optional<StartedCollective> after{};
  /// Filled in by communicators between devices. Valid until the end.
  DeviceCall const* on_device = nullptr;

  std::int64_t piece_begin(std::int64_t member) const {
    if (pieces != nullptr) return std::accumulate(pieces, pieces + member, std::int64_t{0});
    return std::clamp<std::int64_t>(member * piece - origin, 0, elements);
  }
  /// The first element of the piece for a member, and of that from it.
  std::int64_t sent_begin(std::int64_t member) const {
    return sent == nullptr ? piece_begin(member)
                           : std::accumulate(sent, sent + member, std::int64_t{0});
  }
  std::int64_t received_begin(std::int64_t member) const {
    return received == nullptr ? piece_begin(member)
                               : std::accumulate(received, received + member, std::int64_t{0});
  }
  std::int64_t sent_to(std::int64_t member) const {
    return sent_begin(member + 1) - sent_begin(member);
  }
  std::int64_t received_from(std::int64_t member) const {
    return received_begin(member + 1) - received_begin(member);
  }
  bool has_uneven_pieces() const { return sent != nullptr || pieces != nullptr; }
};

/// One end of a message between neighbouring stages.
struct Message {
  Transfer::End end = Transfer::End::send;
  std::int32_t number = 0;  ///< Transfer::message
  RankId peer{};            ///< at the other end
  void* data = nullptr;     ///< valid until the wait
  std::size_t bytes = 0;
  SimTime posted{0};     ///< when this end was ready
  SimTime latency{0};    ///< virtual clock: it arrives latency + occupancy after it starts
  SimTime occupancy{0};  ///< virtual clock: it occupies its sender's stream for so long
  Name payload{};        ///< what it carries, for errors
  MicrobatchId microbatch = no_microbatch;
  /// Filled in by communicators between devices. Valid until the wait.
  DeviceCall const* on_device = nullptr;
};

/// Another rank of the job has failed, so this rank cannot continue.
class PeerFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A rank's communication with the other ranks of its job. Only the rank's thread uses it.
///
/// This folder has four implementations: ranks as threads of one process (ThreadWorld, the
/// reference), as processes over MPI (MpiWorld) or NCCL (make_nccl_world), and one rank alone
/// (SoloCommunicator).
///
/// The semantics are NCCL's: the collectives of a group run in issue order, messages are grouped by
/// their posts, and everything that is posted or started is finished by exactly one wait. Tensors
/// are reduced in rank order, 16-bit ones in fp32 with one rounding at the end; NCCL does neither.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Identifies a collective in flight among those of its group.
  using Ticket = std::int64_t;
  virtual Ticket start(Collective const& collective) = 0;
  /// Waits until this member's part is done. Returns when it ran.
  /// \throws PeerFailure
  virtual TimeSpan finish(GroupId group, Ticket ticket) = 0;

  virtual void post(Message const& message) = 0;
  /// Waits until a message has arrived; for a send, until the sender may overwrite the tensor.
  /// \throws PeerFailure
  virtual TimeSpan wait(Message const& message) = 0;

  /// Waits for all ranks of the job. It is called between iterations and is not part of the plan.
  /// \throws PeerFailure
  virtual void barrier() = 0;

  /// Called by a rank that cannot continue, while its tensors still exist. If ranks are processes,
  /// ends all of them, this one included. If they are threads, makes their calls throw PeerFailure,
  /// and returns when none of them uses this rank's tensors.
  virtual void fail(std::exception_ptr const& error) = 0;
};

}  // namespace stagecraft
