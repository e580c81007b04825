#include "libsim/memory/message_buffers.hpp"

namespace stagecraft {

MessageMoveList message_moves(TrainingPlan const& plan,
                              IssueEntry::Kind kind,
                              Transfer const& transfer) {
  MessageMoveList moves;
  bool const is_post = kind == IssueEntry::Kind::post;
  bool const scatters = plan.scatters_messages();
  if (transfer.end == Transfer::End::receive) {
    MessageBuffer const received = scatters ? MessageBuffer::piece : MessageBuffer::whole;
    if (is_post) {
      moves.push_back({received, true});
    } else if (scatters) {
      moves.push_back({MessageBuffer::whole, true});
      moves.push_back({MessageBuffer::piece, false});
    }
    return moves;
  }
  bool const is_kept =
      transfer.payload == Transfer::Payload::activation && !plan.config.memory.output_deallocation;
  if (!is_post && !is_kept) moves.push_back({MessageBuffer::whole, false});
  return moves;
}

Bytes message_buffer_bytes(TrainingPlan const& plan, MessageBuffer buffer) {
  return buffer == MessageBuffer::whole ? plan.message_bytes() : plan.sent_bytes();
}

bool releases_output(TrainingPlan const& plan, Task const& task) {
  ChunkProgram const& chunk = plan.programs.chunks[static_cast<std::size_t>(task.program)];
  return ends_gradient(task) && !plan.config.memory.output_deallocation && !chunk.has_head &&
         !chunk.keeps_output;
}

}  // namespace stagecraft
