#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "libsim/engine/timeline.hpp"

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

/// A rank written down step by step.
struct HandMadeRank {
  std::vector<IssueEntry> steps;
  std::vector<Task> tasks;
  std::vector<SimTime> durations;
  std::vector<Transfer> transfers;
  MessagePrice activation;
  MessagePrice gradient;

  HandMadeRank& run(int duration,
                    Stream stream = Stream::compute,
                    std::optional<GroupId> group = {}) {
    steps.push_back(
        {.kind = IssueEntry::Kind::run, .task = static_cast<std::int32_t>(tasks.size())});
    tasks.push_back({.kind = Task::Kind::step, .stream = stream, .group = group});
    durations.emplace_back(duration);
    return *this;
  }
  HandMadeRank& drain() {
    steps.push_back({.kind = IssueEntry::Kind::drain});
    return *this;
  }
  HandMadeRank& post(std::initializer_list<Transfer> together) {
    steps.push_back({.kind = IssueEntry::Kind::post,
                     .first = static_cast<std::int32_t>(transfers.size()),
                     .count = static_cast<std::int32_t>(together.size())});
    transfers.insert(transfers.end(), together);
    return *this;
  }
  HandMadeRank& wait(int first, int count) {
    steps.push_back({.kind = IssueEntry::Kind::wait, .first = first, .count = count});
    return *this;
  }
  /// A blocking joint call.
  HandMadeRank& exchange(std::initializer_list<Transfer> together) {
    auto const first = static_cast<int>(transfers.size());
    return post(together).wait(first, static_cast<int>(together.size()));
  }
  RankProgram program() const { return {steps, tasks, transfers, durations, activation, gradient}; }
};

/// Message `message` as its sender sees it; likewise receive().
inline Transfer send(Transfer::Payload payload, int to, int message) {
  return {payload, Transfer::End::send, to, 0, 0, message};
}
inline Transfer receive(Transfer::Payload payload, int from, int message) {
  return {payload, Transfer::End::receive, from, 0, 0, message};
}

/// Plays hand-made ranks.
inline Timeline play_ranks(std::vector<HandMadeRank> const& ranks,
                           P2p p2p = P2p::blocking,
                           int slowdown_millionths = 0) {
  std::vector<RankProgram> programs;
  int messages = 0;
  for (HandMadeRank const& rank : ranks) {
    programs.push_back(rank.program());
    for (Transfer const& t : rank.transfers) messages = std::max(messages, t.message + 1);
  }
  RankGroups const groups = stage_groups(static_cast<int>(ranks.size()));
  return play({programs, messages, p2p, slowdown_millionths, {}, &groups});
}

}  // namespace stagecraft
