#pragma once

#include <cstdint>

#include "libsim/plan/training_plan.hpp"
#include "libsim/units/inline_list.hpp"

namespace stagecraft {

/// A buffer that a message needs at one of its ends.
enum class MessageBuffer : std::uint8_t {
  whole,  ///< the hidden state [s, b, h], or [s/t, b, h] with sequence parallelism
  piece,  ///< the flat 1/t of it that a rank sends if messages are scattered
};

/// One allocation or release of a MessageBuffer.
struct MessageMove {
  MessageBuffer buffer = MessageBuffer::whole;
  bool allocates = false;

  /// The category in which the buffer is counted.
  Category category() const {
    return buffer == MessageBuffer::whole ? Category::activations : Category::communication;
  }
};

/// At most two moves, in order.
using MessageMoveList = InlineList<MessageMove, 2>;

/// How the post of a transfer, or the wait for it, changes memory. A receive buffer exists from
/// its post on. A sent tensor exists until the wait for its send; without output deallocation it
/// exists until its backward is over (releases_output()). If messages are scattered, a receive
/// buffer holds a piece, and the wait gathers the whole from the pieces of the tensor ranks.
/// Pre: `kind` is post or wait.
MessageMoveList message_moves(TrainingPlan const& plan,
                              IssueEntry::Kind kind,
                              Transfer const& transfer);

/// The size of a message buffer on one rank.
Bytes message_buffer_bytes(TrainingPlan const& plan, MessageBuffer buffer);

/// Whether the end of a task releases the output that its chunk's forward has sent. Without output
/// deallocation, the end of a chunk's backward, or of its input gradient, does so; with it, the
/// wait for the send does.
bool releases_output(TrainingPlan const& plan, Task const& task);

}  // namespace stagecraft
