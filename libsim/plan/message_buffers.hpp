#pragma once

#include <cstdint>

#include "libsim/plan/training_plan.hpp"
#include "libsim/units/inline_list.hpp"

namespace stagecraft {

/// A buffer that a message needs at one of its ends.
enum class MessageBuffer : std::uint8_t {
  whole,  ///< the hidden state [s, b, h], or [s/t, b, h] with sequence parallelism
  piece,  ///< the 1/t of it that travels where messages are scattered; flat
};

/// One allocation or release of such a buffer.
struct MessageMove {
  MessageBuffer buffer = MessageBuffer::whole;
  bool allocates = false;

  /// What the buffer counts as.
  Category category() const {
    return buffer == MessageBuffer::whole ? Category::activations : Category::communication;
  }
};

/// At most two moves, in order.
using MessageMoveList = InlineList<MessageMove, 2>;

/// What the post of a transfer, or the wait for it, does to memory: receive buffers exist from
/// their post on, sent tensors until the wait for their send (outputs that are not deallocated:
/// until their backward is over, see releases_output()). Where messages are scattered, a receive
/// buffer holds a piece, and the whole is gathered from the pieces of the tensor ranks at the wait.
/// Pre: `kind` is post or wait.
MessageMoveList message_moves(TrainingPlan const& plan,
                              IssueEntry::Kind kind,
                              Transfer const& transfer);

/// Bytes of such a buffer.
Bytes message_buffer_bytes(TrainingPlan const& plan, MessageBuffer buffer);

/// Whether a task, when it is over, releases the output that its chunk's forward has sent and kept:
/// without output deallocation, the end of a chunk's backward does.
bool releases_output(TrainingPlan const& plan, Task const& task);

}  // namespace stagecraft
