#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "libsim/engine/player/player.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "tests/libsim/engine/hand_made_stages.hpp"
#include "tests/libsim/schedule/legal_shapes.hpp"

namespace stagecraft::timeline_order_test {

namespace {

/// A stage of a schedule with costs of its own, gradient reduction behind its last tasks, and the
/// group tasks at the end: everything that ties stages together.
HandMadeStage make_stage(PipelineSchedule const& schedule, int stage) {
  auto const stages = static_cast<int>(schedule.stages.size());
  IssueOrder const order = unroll(schedule.stages[StageId{stage}]);
  HandMadeStage made;
  made.program.transfers = order.transfers;
  made.activation = {SimTime{7 + stage}, SimTime{31 + 5 * stage}};
  made.gradient = {SimTime{11 - stage}, SimTime{29 + 3 * stage}};
  for (int task = 0; task < schedule.tasks(); ++task) {
    made.tasks.push_back({});
    made.durations.emplace_back(100 + 17 * stage + 53 * task);
    made.on_links.emplace_back(0);
  }
  for (IssueEntry const& entry : order.entries) {
    made.program.entries.push_back(entry);
    bool const is_backward =
        entry.kind == IssueEntry::Kind::run && schedule.run_of(entry).pass == Pass::backward;
    if (is_backward && entry.microbatch.value() % 3 == 0) made.run(90, Stream::data_parallel);
  }
  made.drain();
  if (stage == 0 || stage + 1 == stages) made.run(40 + stage, Stream::compute, end_stages);
  made.run(5 + stage, Stream::compute, all_stages);
  return made;
}

/// Advances stages in a random order, blocked ones included, until all are done.
template <class Channels>
std::vector<SimTime> ends_of_random_order(TimelineInput const& input, std::mt19937& random) {
  SilentObserver observer;
  Player<Channels, SilentObserver> player{input, observer};
  std::vector<int> left(input.stages.size());
  for (std::size_t stage = 0; stage < left.size(); ++stage) left[stage] = static_cast<int>(stage);
  while (!left.empty()) {
    auto const pick = random() % left.size();
    if (player.advance(left[pick])) left.erase(left.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  std::vector<SimTime> ends;
  for (std::size_t stage = 0; stage < input.stages.size(); ++stage) {
    ends.push_back(player.idle_from(static_cast<int>(stage)));
  }
  return ends;
}

}  // namespace

TEST_CASE("stages end at the same times in whichever order they are taken up") {
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  std::mt19937 random{20220510};
  for (ScheduleShape const& shape : {ScheduleShape{ScheduleKind::one_f_one_b, 4, 9, 1, 0, p2p},
                                     ScheduleShape{ScheduleKind::gpipe, 3, 5, 1, 0, p2p},
                                     ScheduleShape{ScheduleKind::interleaved, 4, 13, 3, 9, p2p},
                                     ScheduleShape{ScheduleKind::interleaved, 2, 7, 2, 5, p2p}}) {
    PipelineSchedule const schedule = make_pipeline_schedule(shape);
    std::vector<HandMadeStage> made;
    for (int stage = 0; stage < shape.stages; ++stage) made.push_back(make_stage(schedule, stage));
    HandMadeRun const run{made};
    TimelineInput const input = run.input(p2p, 150'000);

    std::vector<SimTime> expected;
    for (StageTimeline const& stage : play(input).stages) {
      REQUIRE(stage.end == stage.busy + stage.transfer + stage.bubble + stage.data_parallel);
      expected.push_back(stage.end);
    }
    for (int round = 0; round < 20; ++round) {
      REQUIRE((p2p == P2p::blocking
                   ? ends_of_random_order<BlockingChannels>(input, random)
                   : ends_of_random_order<OverlappedChannels>(input, random)) == expected);
    }
  }
}

}  // namespace stagecraft::timeline_order_test
