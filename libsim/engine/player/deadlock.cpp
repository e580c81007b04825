#include "libsim/engine/player/deadlock.hpp"

#include <cstddef>

namespace stagecraft {

namespace {

std::string text_of(Transfer const& transfer) {
  bool const sends = transfer.end == Transfer::End::send;
  std::string const payload =
      transfer.payload == Transfer::Payload::activation ? "activation" : "gradient";
  return (sends ? "send(" : "receive(") + payload + ", microbatch " +
         std::to_string(transfer.microbatch.value()) + ", chunk " +
         std::to_string(transfer.chunk.value()) + ")" + (sends ? " to" : " from") + " stage " +
         std::to_string(transfer.peer.value());
}

/// The stages for which the group of `stage` waits.
std::string absentees(GroupId group,
                      std::size_t stage,
                      TimelineInput const& input,
                      std::span<BlockedStage const> stages) {
  std::string text = "the " + std::string{(*input.groups)[group].name} + ", where stage";
  for (StageId const member : input.groups->stages(group, StageId::of_index(stage))) {
    BlockedStage const& other = stages[member.index()];
    if (other.has_joined) continue;
    IssueOrder const order = unroll(*input.stages[member.index()].program);
    bool const is_done = static_cast<std::size_t>(other.entry) == order.entries.size();
    text += ' ' + std::to_string(member.value()) + (is_done ? " (done)" : "");
  }
  return text + " is missing";
}

}  // namespace

std::string describe_deadlock(TimelineInput const& input, std::span<BlockedStage const> stages) {
  std::string text = "the schedule is deadlocked:";
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    IssueOrder const order = unroll(*input.stages[stage].program);
    auto const next = static_cast<std::size_t>(stages[stage].entry);
    if (next == order.entries.size()) continue;
    IssueEntry const& entry = order.entries[next];
    text += "\nstage " + std::to_string(stage) + " waits for ";
    if (entry.kind == IssueEntry::Kind::run) {
      Task const& task = input.stages[stage].tasks[static_cast<std::size_t>(entry.task)];
      text += absentees(task.group.value(), stage, input, stages);
      continue;
    }
    for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
      Transfer const& transfer = order.transfers[static_cast<std::size_t>(i)];
      bool const is_buffered = input.p2p == P2p::overlapped && transfer.end == Transfer::End::send;
      bool const is_missing =
          !is_buffered && (*stages[stage].is_missing)[static_cast<std::size_t>(transfer.channel)];
      if (!is_missing) continue;
      text += text_of(transfer);
      break;
    }
  }
  return text;
}

}  // namespace stagecraft
