#include "libsim/engine/timeline.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "libsim/engine/player.hpp"

namespace stagecraft {

namespace {

constexpr int one = 1'000'000;  ///< full speed, in millionths

/// Holds a time in picoseconds times a speed in millionths.
__extension__ using Wide = __int128;

SimTime rounded_quotient(Wide dividend, std::int64_t divisor) {
  return SimTime{static_cast<std::int64_t>((dividend + divisor / 2) / divisor)};
}

std::string text_of(Transfer const& transfer) {
  bool const sends = transfer.end == Transfer::End::send;
  std::string const payload =
      transfer.payload == Transfer::Payload::activation ? "activation" : "gradient";
  return (sends ? "send(" : "receive(") + payload + ", microbatch " +
         std::to_string(transfer.microbatch) + ", chunk " + std::to_string(transfer.chunk) + ")" +
         (sends ? " to" : " from") + " rank " + std::to_string(transfer.peer);
}

/// Whom the group of `rank` waits for.
std::string absentees(GroupId group,
                      std::size_t rank,
                      TimelineInput const& input,
                      std::span<BlockedRank const> ranks) {
  std::string text = "the " + std::string{(*input.groups)[group].name} + ", where rank";
  for (int const stage : input.groups->stages(group, static_cast<int>(rank))) {
    auto const member = static_cast<std::size_t>(stage);
    if (ranks[member].has_joined) continue;
    IssueOrder const order = unroll(*input.stages[member].program);
    bool const is_done = static_cast<std::size_t>(ranks[member].entry) == order.entries.size();
    text += ' ' + std::to_string(stage) + (is_done ? " (done)" : "");
  }
  return text + " is missing";
}

void check_stage(TimelineInput const& input, std::size_t rank) {
  PlayedStage const& stage = input.stages[rank];
  auto const refuse = [rank](std::string const& problem) {
    throw std::invalid_argument{"rank " + std::to_string(rank) + ": " + problem};
  };
  if (stage.durations.size() != stage.tasks.size()) {
    refuse("found " + std::to_string(stage.durations.size()) + " durations for " +
           std::to_string(stage.tasks.size()) + " tasks");
  }
  for (SimTime const duration : stage.durations) {
    if (duration < SimTime{0}) refuse("found a negative duration");
  }
  for (Task const& task : stage.tasks) {
    if (task.stream != Stream::compute && task.stream != Stream::data_parallel) {
      refuse("found a task on another stream; accepted: compute, data_parallel");
    }
    if (!task.group) continue;
    if (input.groups == nullptr) refuse("found a task of a group, of which there are none");
    if (input.groups->stages(*task.group, static_cast<int>(rank)).empty()) {
      refuse("found a task of the " + std::string{(*input.groups)[*task.group].name} +
             "; accepted: only on the stages that it joins");
    }
  }
}

}  // namespace

void check_timeline_input(TimelineInput const& input) {
  if (input.slowdown_millionths < 0 || input.slowdown_millionths >= one) {
    throw std::invalid_argument{"slowdown: found " + std::to_string(input.slowdown_millionths) +
                                " millionths; accepted: 0 to 999999"};
  }
  for (MessagePrice const& price : input.channels) {
    if (price.latency < SimTime{0} || price.occupancy < SimTime{0}) {
      throw std::invalid_argument{"found a negative transfer price"};
    }
  }
  for (std::size_t rank = 0; rank < input.stages.size(); ++rank) check_stage(input, rank);
}

std::string describe_deadlock(TimelineInput const& input, std::span<BlockedRank const> ranks) {
  std::string text = "the schedule is deadlocked:";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    IssueOrder const order = unroll(*input.stages[rank].program);
    auto const next = static_cast<std::size_t>(ranks[rank].entry);
    if (next == order.entries.size()) continue;
    IssueEntry const& entry = order.entries[next];
    text += "\nrank " + std::to_string(rank) + " waits for ";
    if (entry.kind == IssueEntry::Kind::run) {
      Task const& task = input.stages[rank].tasks[static_cast<std::size_t>(entry.task)];
      text += absentees(task.group.value(), rank, input, ranks);
      continue;
    }
    for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
      Transfer const& transfer = order.transfers[static_cast<std::size_t>(i)];
      bool const is_buffered = input.p2p == P2p::overlapped && transfer.end == Transfer::End::send;
      bool const is_missing =
          !is_buffered && (*ranks[rank].is_missing)[static_cast<std::size_t>(transfer.channel)];
      if (!is_missing) continue;
      text += text_of(transfer);
      break;
    }
  }
  return text;
}

SimTime ideal_time(Timeline const& timeline) {
  SimTime ideal{0};
  for (RankTimeline const& rank : timeline.ranks) ideal = std::max(ideal, rank.busy);
  return ideal;
}

double bubble_fraction(Timeline const& timeline) {
  SimTime const ideal = ideal_time(timeline);
  return static_cast<double>((timeline.makespan - ideal).count()) /
         static_cast<double>(ideal.count());
}

Timeline play(TimelineInput const& input) {
  SilentObserver observer;
  return play(input, observer);
}

IterationEnd play_to_end(TimelineInput const& input) {
  NoObserver observer;
  if (input.p2p == P2p::blocking) {
    return Player<BlockingChannels, NoObserver>{input, observer}.finish_quickly();
  }
  return Player<OverlappedChannels, NoObserver>{input, observer}.finish_quickly();
}

SimTime slowed_end(SimTime start, SimTime duration, SimTime busy_until, int slowdown_millionths) {
  assert(0 <= slowdown_millionths && slowdown_millionths < one);
  if (busy_until <= start) return start + duration;
  int const speed = one - slowdown_millionths;
  Wide const wanted = Wide{duration.count()} * one;
  Wide const done_while_busy = Wide{(busy_until - start).count()} * speed;
  if (wanted <= done_while_busy) return start + rounded_quotient(wanted, speed);
  return busy_until + rounded_quotient(wanted - done_while_busy, one);
}

}  // namespace stagecraft
