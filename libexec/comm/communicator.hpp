#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#include "libsim/model/op.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/units/units.hpp"

struct CUevent_st;   ///< what a cudaEvent_t points to
struct CUstream_st;  ///< what a cudaStream_t points to

namespace stagecraft {

/// From when to when something ran, since the start of the iteration. On a device that works behind
/// its host: the marks of a DeviceTimeline, counted, which become times when the iteration is over.
struct TimeSpan {
  SimTime start{0};
  SimTime end{0};
};

/// CUDA: one rank's part in a collective or a message. Events are valid for the iteration.
struct CudaCall {
  CUstream_st* stream = nullptr;  ///< of this rank, for this kind of communication
  CUevent_st* ready = nullptr;  ///< recorded: the rank's tensors may be read and written from here
  CUevent_st* begun = nullptr;  ///< to be recorded when the transfer starts
  CUevent_st* done = nullptr;   ///< to be recorded when this rank's tensors are its own again
};

/// One collective, as one member of its group issues it. Members issue the collectives of a group
/// in the same order.
struct Collective {
  OpKind kind = OpKind::all_reduce;  ///< one of the collectives
  GroupId group{};                   ///< of the plan's groups
  Reduction reduction = Reduction::sum;
  ElementType type = ElementType::f32;
  void const* source = nullptr;  ///< all_gather: this member's piece; else the whole tensor
  void* target = nullptr;        ///< reduce_scatter: this member's piece; else the whole tensor
  std::int64_t elements = 0;     ///< of the whole tensor
  /// Pieces: member i has elements [i * piece - origin, (i + 1) * piece - origin) of the whole, as
  /// far as they exist.
  std::int64_t piece = 0;
  std::int64_t origin = 0;
  SimTime issued{0};            ///< when this member is ready for it
  SimTime price{0};             ///< how long it takes, where time is priced and not measured
  Name op{};                    ///< what the plan calls it, for messages; empty between iterations
  bool in_host_memory = false;  ///< source and target are the host's, whatever the device
  CudaCall cuda{};              ///< filled in by communicators between CUDA devices

  std::int64_t piece_begin(std::int64_t member) const {
    return std::clamp<std::int64_t>(member * piece - origin, 0, elements);
  }
};

/// One end of a message between neighbouring stages.
struct Message {
  Transfer::End end = Transfer::End::send;
  std::int32_t number = 0;  ///< Transfer::message
  int peer = 0;             ///< rank at the other end
  void* data = nullptr;     ///< stays valid until the wait
  std::size_t bytes = 0;
  SimTime posted{0};     ///< when this end was ready
  SimTime latency{0};    ///< where time is priced: the message arrives latency + occupancy after it
  SimTime occupancy{0};  ///< starts, and holds its sender's stream for the occupancy
  Name payload{};        ///< what it carries, for messages
  std::int64_t microbatch = -1;
  CudaCall cuda{};  ///< filled in by communicators between CUDA devices
};

/// Another rank of the job has failed, so that this one cannot go on either.
class PeerFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One rank's way to the others. Used by the rank's thread only.
///
/// Semantics are NCCL's: collectives of one group run in issue order; messages are grouped by their
/// posts; everything posted or started is finished by exactly one wait. Tensors are reduced in rank
/// order, 16-bit ones in fp32 and rounded once.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Collectives of a group that are under way are told apart by their number.
  using Ticket = std::int64_t;
  virtual Ticket start(Collective const& collective) = 0;
  /// Waits until this member's part is done; says when it ran.
  /// \throws PeerFailure
  virtual TimeSpan finish(GroupId group, Ticket ticket) = 0;

  virtual void post(Message const& message) = 0;
  /// Waits until a message has arrived, or may be overwritten by its sender.
  /// \throws PeerFailure
  virtual TimeSpan wait(Message const& message) = 0;

  /// Waits for all ranks of the job. Not part of any plan: between steps.
  /// \throws PeerFailure
  virtual void barrier() = 0;

  /// Called by a rank that cannot go on, while its tensors are still there. Where the other ranks
  /// are processes it ends them all, this one included; where they are threads they find out by
  /// themselves, and this returns once none of them uses the tensors of this rank any more.
  virtual void fail(std::exception_ptr const& error) = 0;
};

}  // namespace stagecraft
