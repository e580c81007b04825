#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "libsim/engine/player.hpp"
#include "libsim/plan/schedule_layout.hpp"
#include "tests/libsim/engine/hand_made_stages.hpp"
#include "tests/libsim/plan/legal_shapes.hpp"

namespace stagecraft {

namespace {

/// A rank of a schedule with costs of its own, gradient reduction behind its last tasks, and the
/// group tasks at the end: everything that ties ranks together.
HandMadeRank make_rank(PipelineSchedule const& schedule, int rank) {
  auto const ranks = static_cast<int>(schedule.stages.size());
  IssueOrder const order = unroll(schedule.stages[StageId{rank}]);
  HandMadeRank made;
  made.program.transfers = order.transfers;
  made.activation = {SimTime{7 + rank}, SimTime{31 + 5 * rank}};
  made.gradient = {SimTime{11 - rank}, SimTime{29 + 3 * rank}};
  for (int task = 0; task < schedule.tasks(); ++task) {
    made.tasks.push_back({});
    made.durations.emplace_back(100 + 17 * rank + 53 * task);
    made.on_links.emplace_back(0);
  }
  for (IssueEntry const& entry : order.entries) {
    made.program.entries.push_back(entry);
    bool const is_backward =
        entry.kind == IssueEntry::Kind::run && schedule.run_of(entry).part == Part::backward;
    if (is_backward && entry.microbatch.value() % 3 == 0) made.run(90, Stream::data_parallel);
  }
  made.drain();
  if (rank == 0 || rank + 1 == ranks) made.run(40 + rank, Stream::compute, end_stages);
  made.run(5 + rank, Stream::compute, all_stages);
  return made;
}

/// Advances ranks in a random order, blocked ones included, until all are done.
template <class Channels>
std::vector<SimTime> ends_of_random_walk(TimelineInput const& input, std::mt19937& random) {
  SilentObserver observer;
  Player<Channels, SilentObserver> player{input, observer};
  std::vector<int> left(input.stages.size());
  for (std::size_t rank = 0; rank < left.size(); ++rank) left[rank] = static_cast<int>(rank);
  while (!left.empty()) {
    auto const pick = random() % left.size();
    if (player.advance(left[pick])) left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  std::vector<SimTime> ends;
  for (std::size_t rank = 0; rank < input.stages.size(); ++rank) {
    ends.push_back(player.idle_from(static_cast<int>(rank)));
  }
  return ends;
}

}  // namespace

TEST_CASE("ranks end at the same times in whichever order they are taken up") {
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  std::mt19937 random{20220510};
  for (ScheduleShape const& shape : {ScheduleShape{ScheduleKind::one_f_one_b, 4, 9, 1, 0, p2p},
                                     ScheduleShape{ScheduleKind::gpipe, 3, 5, 1, 0, p2p},
                                     ScheduleShape{ScheduleKind::interleaved, 4, 13, 3, 9, p2p},
                                     ScheduleShape{ScheduleKind::interleaved, 2, 7, 2, 5, p2p}}) {
    PipelineSchedule const schedule = make_pipeline_schedule(shape);
    std::vector<HandMadeRank> made;
    for (int rank = 0; rank < shape.stages; ++rank) made.push_back(make_rank(schedule, rank));
    HandMadeRun const run{made};
    TimelineInput const input = run.input(p2p, 150'000);

    std::vector<SimTime> expected;
    for (RankTimeline const& rank : play(input).ranks) {
      REQUIRE(rank.end == rank.busy + rank.transfer + rank.bubble + rank.data_parallel);
      expected.push_back(rank.end);
    }
    for (int round = 0; round < 20; ++round) {
      REQUIRE((p2p == P2p::blocking
                   ? ends_of_random_walk<BlockingChannels>(input, random)
                   : ends_of_random_walk<OverlappedChannels>(input, random)) == expected);
    }
  }
}

}  // namespace stagecraft
