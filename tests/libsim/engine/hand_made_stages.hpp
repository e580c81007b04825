#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "libsim/engine/player/timeline.hpp"

namespace stagecraft {

/// Groups that stages meet in: all of them, and the first with the last.
inline constexpr GroupId all_stages{0};
inline constexpr GroupId end_stages{1};

inline RankGroups stage_groups(int stages) {
  IdVector<AxisId, GridAxis> axes;
  AxisId const pipeline = axes.push_back({pipeline_axis, stages});
  RankGrid const grid{axes};
  RankGroups groups{grid};
  groups.add({"group of all stages", {}, {{whole_axis(grid, pipeline)}}});
  groups.add({"group of the ends", {}, {{positions_of_axis(pipeline, {0, stages - 1})}}});
  return groups;
}

/// A stage written down entry by entry.
struct HandMadeStage {
  StageProgram program;
  std::vector<Task> tasks;
  std::vector<SimTime> durations;
  std::vector<SimTime> on_links;
  MessageCost activation;
  MessageCost gradient;

  HandMadeStage& run(int duration,
                     Stream stream = Stream::compute,
                     std::optional<GroupId> group = {}) {
    program.entries.push_back(
        {.kind = IssueEntry::Kind::run, .task = static_cast<std::int32_t>(tasks.size())});
    tasks.push_back({.kind = Task::Kind::step, .stream = stream, .group = group});
    durations.emplace_back(duration);
    on_links.emplace_back(0);
    return *this;
  }
  /// For so long of the task before, its collectives use the links of the data-parallel stream.
  HandMadeStage& with_links(int time) {
    on_links.back() = SimTime{time};
    return *this;
  }
  HandMadeStage& drain() {
    program.entries.push_back({.kind = IssueEntry::Kind::drain});
    return *this;
  }
  HandMadeStage& post(std::initializer_list<Transfer> together) {
    program.entries.push_back({.kind = IssueEntry::Kind::post,
                               .first = static_cast<std::int32_t>(program.transfers.size()),
                               .count = static_cast<std::int32_t>(together.size())});
    for (Transfer transfer : together) {
      transfer.channel = transfer.message;  // one message per channel
      program.transfers.push_back(transfer);
    }
    return *this;
  }
  HandMadeStage& wait(int first, int count) {
    program.entries.push_back({.kind = IssueEntry::Kind::wait, .first = first, .count = count});
    return *this;
  }
  /// A blocking joint call.
  HandMadeStage& exchange(std::initializer_list<Transfer> together) {
    auto const first = static_cast<int>(program.transfers.size());
    return post(together).wait(first, static_cast<int>(together.size()));
  }
  PlayedStage played() const { return {&program, tasks, durations, on_links}; }
};

/// Message `message` as its sender sees it; likewise receive().
inline Transfer send(Transfer::Payload payload, int to, int message) {
  return {payload, Transfer::End::send, StageId{to}, MicrobatchId{}, ChunkId{}, message, message};
}
inline Transfer receive(Transfer::Payload payload, int from, int message) {
  return {payload, Transfer::End::receive, StageId{from}, MicrobatchId{}, ChunkId{}, message,
          message};
}

/// Hand-made stages as the player takes them.
struct HandMadeRun {
  std::vector<PlayedStage> stages;
  std::vector<MessageCost> channels;
  RankGroups groups;

  explicit HandMadeRun(std::vector<HandMadeStage> const& hand_made)
      : groups{stage_groups(static_cast<int>(hand_made.size()))} {
    for (HandMadeStage const& stage : hand_made) {
      stages.push_back(stage.played());
      for (Transfer const& transfer : stage.program.transfers) {
        auto const channel = static_cast<std::size_t>(transfer.channel);
        channels.resize(std::max(channels.size(), channel + 1));
        if (transfer.end != Transfer::End::send) continue;
        channels[channel] =
            transfer.payload == Transfer::Payload::activation ? stage.activation : stage.gradient;
      }
    }
  }
  TimelineInput input(P2p p2p = P2p::blocking, int slowdown_millionths = 0) const {
    constexpr int most_queued = 100;
    return {stages, channels, most_queued, p2p, slowdown_millionths, &groups};
  }
};

/// Plays hand-made stages.
inline Timeline play_stages(std::vector<HandMadeStage> const& stages,
                            P2p p2p = P2p::blocking,
                            int slowdown_millionths = 0) {
  HandMadeRun const run{stages};
  return play(run.input(p2p, slowdown_millionths));
}

}  // namespace stagecraft
