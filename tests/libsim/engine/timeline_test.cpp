#include "libsim/engine/player/timeline.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/engine/player/player.hpp"
#include "tests/libsim/engine/hand_made_stages.hpp"

namespace stagecraft::timeline_test {

namespace {

using enum Transfer::Payload;

constexpr MessageCost message_cost(int latency, int occupancy) {
  return {SimTime{latency}, SimTime{occupancy}};
}

}  // namespace

TEST_CASE("a blocking message starts when both ends are there and frees both at its arrival") {
  std::vector<HandMadeStage> stages(2);
  stages[0].activation = message_cost(5, 20);
  stages[0].run(100).exchange({send(activation, 1, 0)}).run(7);
  stages[1].run(30).exchange({receive(activation, 0, 0)}).run(9);
  Timeline const timeline = play_stages(stages);
  // Rank 1 waits 70 for the sender, then both wait 25 for the message.
  REQUIRE(timeline.stages[0] ==
          StageTimeline{SimTime{132}, SimTime{107}, SimTime{25}, SimTime{0}, SimTime{0}});
  REQUIRE(timeline.stages[1] ==
          StageTimeline{SimTime{134}, SimTime{39}, SimTime{25}, SimTime{70}, SimTime{0}});
  REQUIRE(timeline.makespan == SimTime{134});
}

TEST_CASE("a message costs what its sender's cost for that payload says") {
  std::vector<HandMadeStage> stages(2);
  stages[0].activation = message_cost(1, 10);
  stages[0].gradient = message_cost(1000, 1000);
  stages[1].gradient = message_cost(2, 40);
  stages[1].activation = message_cost(1000, 1000);
  stages[0].exchange({send(activation, 1, 0)}).exchange({receive(gradient, 1, 1)});
  stages[1].exchange({receive(activation, 0, 0)}).exchange({send(gradient, 0, 1)});
  REQUIRE(play_stages(stages).makespan == SimTime{11 + 42});
}

TEST_CASE("a joint call lasts as long as its longest message") {
  std::vector<HandMadeStage> stages(2);
  stages[0].activation = message_cost(0, 10);
  stages[1].gradient = message_cost(0, 40);
  stages[0].exchange({send(activation, 1, 0), receive(gradient, 1, 1)});
  stages[1].run(3).exchange({receive(activation, 0, 0), send(gradient, 0, 1)});
  Timeline const timeline = play_stages(stages);
  REQUIRE(timeline.stages[0].end == SimTime{43});
  REQUIRE(timeline.stages[0].bubble == SimTime{3});
  REQUIRE(timeline.stages[1].end == SimTime{43});
}

TEST_CASE("buffered messages of one payload queue for their occupancy but not for their latency") {
  std::vector<HandMadeStage> stages(2);
  stages[0].activation = message_cost(100, 10);
  stages[0].gradient = message_cost(100, 10);
  stages[0].post({send(activation, 1, 0), send(activation, 1, 1), send(gradient, 1, 2)});
  stages[0].wait(0, 3);
  stages[1].post({receive(activation, 0, 0), receive(activation, 0, 1), receive(gradient, 0, 2)});
  stages[1].wait(0, 1).run(0).wait(2, 1).run(0).wait(1, 1);
  Timeline const timeline = play_stages(stages, P2p::overlapped);
  REQUIRE(timeline.stages[0].end == SimTime{20});  // the second activation leaves at 20
  // Activations arrive at 110 and 120; the gradient has a stream of its own and arrives at 110.
  REQUIRE(timeline.stages[1].end == SimTime{120});
}

TEST_CASE("a buffered message travels before its receiver has posted") {
  std::vector<HandMadeStage> stages(2);
  stages[0].activation = message_cost(5, 10);
  stages[0].post({send(activation, 1, 0)}).run(50).wait(0, 1);
  stages[1].run(12).post({receive(activation, 0, 0)}).wait(0, 1);
  Timeline const timeline = play_stages(stages, P2p::overlapped);
  REQUIRE(timeline.stages[0].end == SimTime{50});
  REQUIRE(timeline.stages[1].end == SimTime{15});
  REQUIRE(timeline.stages[1].transfer == SimTime{3});
}

TEST_CASE("data-parallel tasks run behind computation, one after the other, and drain waits") {
  std::vector<HandMadeStage> stages(1);
  stages[0].run(10).run(100, Stream::data_parallel).run(20).run(5, Stream::data_parallel).run(30);
  stages[0].drain().run(1);
  Timeline const timeline = play_stages(stages);
  // Issued at 10 and 30, they run 10-110 and 110-115; computation ends at 60 and resumes at 115.
  REQUIRE(timeline.stages[0] ==
          StageTimeline{SimTime{116}, SimTime{61}, SimTime{0}, SimTime{0}, SimTime{55}});
}

TEST_CASE("what the host updates goes there, is updated and comes back piece by piece") {
  std::vector<HandMadeStage> stages(1);
  stages[0].run(100);
  for (int piece = 0; piece < 2; ++piece) {
    stages[0].run(10, Stream::to_host).run(50, Stream::host).run(20, Stream::from_host);
  }
  stages[0].run(30).drain().run(5);
  // There from 100 and 110; updated from 110 and 160; back from 160 and 210, until 230. The device
  // computes until 130 and then waits.
  REQUIRE(play_stages(stages).stages[0] ==
          StageTimeline{.end = SimTime{235}, .busy = SimTime{135}, .offload = SimTime{100}});
}

TEST_CASE("an iteration ends with its data-parallel stream even without a drain") {
  std::vector<HandMadeStage> stages(1);
  stages[0].run(10).run(100, Stream::data_parallel);
  REQUIRE(play_stages(stages).makespan == SimTime{110});
  REQUIRE(play_stages(stages).stages[0].data_parallel == SimTime{100});
}

TEST_CASE("computation loses a quarter of its speed while the data-parallel stream is busy") {
  std::vector<HandMadeStage> stages(1);
  stages[0].run(40, Stream::data_parallel).run(15).run(60).run(10);
  // 15 takes 20 (0-20). Of 60, 15 is done in 20-40, the other 45 in 40-85. 10 takes 10.
  REQUIRE(play_stages(stages, P2p::blocking, 250'000).stages[0].end == SimTime{95});
  REQUIRE(play_stages(stages, P2p::blocking, 0).stages[0].end == SimTime{85});
}

TEST_CASE("collectives and reductions on the same links have half of them each") {
  // A fluid picture: of the task of 40, a quarter is collectives on the links of the reduction of
  // 60. Until the task is over both need the links for 10 and 40 of 40, 50 together: 10 more than
  // there are. The reduction has 20 left then.
  std::vector<HandMadeStage> stages(1);
  stages[0].run(60, Stream::data_parallel).run(40).with_links(10);
  REQUIRE(play_stages(stages).stages[0] ==
          StageTimeline{SimTime{70}, SimTime{50}, SimTime{0}, SimTime{0}, SimTime{20}});
  // The other way round: of the task's 60 the first 40 run beside the reduction, which ends at 50.
  stages[0] = {};
  stages[0].run(40, Stream::data_parallel).run(60).with_links(15).drain();
  REQUIRE(play_stages(stages).stages[0] ==
          StageTimeline{SimTime{70}, SimTime{70}, SimTime{0}, SimTime{0}, SimTime{0}});
  // All of it collectives: no time is won by running both at once. Without a reduction there is
  // nothing to share.
  stages[0] = {};
  stages[0].run(40, Stream::data_parallel).run(60).with_links(60).run(30).with_links(30).drain();
  REQUIRE(play_stages(stages).stages[0].end == SimTime{130});
  // At half the speed 20 take the 40 of the reduction, of which a quarter is shared.
  stages[0] = {};
  stages[0].run(40, Stream::data_parallel).run(20).with_links(5).drain();
  REQUIRE(play_stages(stages, P2p::blocking, 500'000).stages[0].end == SimTime{50});
}

TEST_CASE("what happens inside tasks that share links keeps its order, and ends with them") {
  TaskBesideReductions const task{.start = SimTime{100},
                                  .duration = SimTime{40},
                                  .on_links = SimTime{10},
                                  .busy_until = SimTime{160}};
  REQUIRE(task.reaches(SimTime{0}) == SimTime{100});
  REQUIRE(task.reaches(SimTime{20}) == SimTime{125});
  REQUIRE(task.reaches(SimTime{40}) == SimTime{150});
  REQUIRE(task.beside() == SimTime{40});
  REQUIRE(task.delay() == SimTime{10});
  // Reductions: what was over before stays, what runs beside the task moves with it.
  REQUIRE(delayed_by_sharing(SimTime{90}, task.start, task.beside(), task.delay()) == SimTime{90});
  REQUIRE(delayed_by_sharing(SimTime{120}, task.start, task.beside(), task.delay()) ==
          SimTime{125});
  REQUIRE(delayed_by_sharing(SimTime{160}, task.start, task.beside(), task.delay()) ==
          SimTime{170});
  TaskBesideReductions idle = task;
  idle.busy_until = SimTime{100};
  REQUIRE(idle.reaches(SimTime{40}) == SimTime{140});
  REQUIRE(idle.delay() == SimTime{0});
}

TEST_CASE("a slowed task is rounded once, to the nearest picosecond") {
  // At 2/3 of the speed (333333 millionths lost): 1 ps of work takes 1.4999..., 3 take 4.4999...
  REQUIRE(slowed_end(SimTime{0}, SimTime{1}, SimTime{100}, 333'333) == SimTime{1});
  REQUIRE(slowed_end(SimTime{0}, SimTime{2}, SimTime{100}, 333'333) == SimTime{3});
  REQUIRE(slowed_end(SimTime{0}, SimTime{3}, SimTime{100}, 333'333) == SimTime{4});
  // Half speed for 5 does 2.5 of 10: 7.5 are left at 5, the end is 12.5, rounded up.
  REQUIRE(slowed_end(SimTime{0}, SimTime{10}, SimTime{5}, 500'000) == SimTime{13});
  // An hour of work at a tenth of the speed does not overflow.
  SimTime const hour{std::int64_t{3'600} * 1'000'000'000'000};
  REQUIRE(slowed_end(SimTime{0}, hour, 100 * hour, 900'000) == 10 * hour);
}

TEST_CASE("a group task starts with the last arrival, lasts as its longest cost, ends on all") {
  std::vector<HandMadeStage> stages(3);
  stages[0].run(10).run(5, Stream::compute, all_stages).run(1);
  stages[1].run(50).run(8, Stream::compute, all_stages).run(2);
  stages[2].run(20).run(5, Stream::compute, all_stages).run(3);
  Timeline const timeline = play_stages(stages);
  REQUIRE(timeline.stages[0] ==
          StageTimeline{SimTime{59}, SimTime{19}, SimTime{0}, SimTime{40}, SimTime{0}});
  REQUIRE(timeline.stages[1].end == SimTime{60});
  REQUIRE(timeline.stages[2].end == SimTime{61});
}

TEST_CASE("the embedding group leaves out the middle stages and meets once a round") {
  std::vector<HandMadeStage> stages(4);
  for (int const member : {0, 3}) {
    auto& stage = stages[static_cast<std::size_t>(member)];
    stage.run(10 * (member + 1)).run(4, Stream::compute, end_stages);
    stage.run(30 - 10 * member).run(4, Stream::compute, end_stages);
  }
  stages[1].run(1);
  stages[2].run(2);
  Timeline const timeline = play_stages(stages);
  // First: arrivals 10 and 40, ends 44. Second: arrivals 74 and 44, ends 78.
  REQUIRE(timeline.stages[0].end == SimTime{78});
  REQUIRE(timeline.stages[3].end == SimTime{78});
  REQUIRE(timeline.stages[1].end == SimTime{1});
}

TEST_CASE("a group task on the data-parallel stream waits for the stream's earlier tasks") {
  std::vector<HandMadeStage> stages(2);
  stages[0].run(100, Stream::data_parallel).run(10);
  stages[0].run(6, Stream::data_parallel, end_stages).run(1);
  stages[1].run(30).run(6, Stream::data_parallel, end_stages);
  Timeline const timeline = play_stages(stages);
  REQUIRE(timeline.stages[0] ==
          StageTimeline{SimTime{107}, SimTime{11}, SimTime{0}, SimTime{0}, SimTime{96}});
  REQUIRE(timeline.stages[1] ==
          StageTimeline{SimTime{106}, SimTime{30}, SimTime{0}, SimTime{70}, SimTime{6}});
}

/// Like run(), a task of a group that waits only for the stages before the own one.
HandMadeStage& follow(HandMadeStage& stage, int duration) {
  stage.run(duration, Stream::compute, all_stages);
  stage.tasks.back().is_prefix = true;
  return stage;
}

TEST_CASE("a prefix task waits for the stage before, and for none behind") {
  std::vector<HandMadeStage> stages(3);
  follow(follow(stages[0].run(10), 2).run(1), 2).run(5);  // turns 10-12 and 13-15
  follow(follow(stages[1].run(50), 3), 3).run(5);         // 50-53 and 53-56
  follow(follow(stages[2].run(20), 1), 1).run(5);         // 53-54 and 56-57
  Timeline const timeline = play_stages(stages);
  REQUIRE(timeline.stages[0].end == SimTime{20});
  REQUIRE(timeline.stages[1].end == SimTime{61});
  REQUIRE(timeline.stages[2] ==
          StageTimeline{SimTime{62}, SimTime{27}, SimTime{0}, SimTime{35}, SimTime{0}});
  REQUIRE(timeline.period == SimTime{62});
}

TEST_CASE("a step taken ahead makes the period the longest span of a stage and its validation") {
  std::vector<HandMadeStage> stages(2);
  stages[0].activation = message_cost(4, 0);
  auto const validate = [](HandMadeStage& stage) {
    stage.run(2, Stream::compute, all_stages);
    stage.tasks.back().is_validation = true;
    stage.run(3);
    stage.tasks.back().is_validation = true;
  };
  stages[0].run(1).run(30);
  stages[0].tasks.back().kind = Task::Kind::forward;
  stages[0].post({send(activation, 1, 0)}).wait(0, 1).run(6);
  validate(stages[0]);
  stages[1].run(1).post({receive(activation, 0, 0)}).wait(0, 1).run(40);
  stages[1].tasks.back().kind = Task::Kind::forward;
  stages[1].run(6);
  validate(stages[1]);
  Timeline const timeline = play_stages(stages, P2p::overlapped);
  // Rank 0 computes 37 and 5. Rank 1 waits from 1 to 35, which the iteration before fills, for 47
  // and 5.
  REQUIRE(timeline.makespan == SimTime{1 + 34 + 46 + 5});
  REQUIRE(timeline.period == SimTime{47 + 5});
  HandMadeRun const run{stages};
  REQUIRE(play_to_end(run.input(P2p::overlapped)).period == timeline.period);
}

TEST_CASE("a group of a single stage does not wait") {
  std::vector<HandMadeStage> stages(1);
  stages[0].run(1).run(4, Stream::compute, end_stages);
  stages[0].run(4, Stream::compute, all_stages);
  REQUIRE(play_stages(stages).makespan == SimTime{9});
}

TEST_CASE("two stages that wait for each other are reported, each with what it waits for") {
  std::vector<HandMadeStage> stages(4);
  stages[0].run(1);
  stages[2].exchange(
      {{gradient, Transfer::End::receive, StageId{3}, MicrobatchId{4}, ChunkId{1}, 0}});
  stages[2].exchange(
      {{activation, Transfer::End::send, StageId{3}, MicrobatchId{5}, ChunkId{0}, 1}});
  stages[3].exchange(
      {{activation, Transfer::End::receive, StageId{2}, MicrobatchId{5}, ChunkId{0}, 1}});
  stages[3].exchange({{gradient, Transfer::End::send, StageId{2}, MicrobatchId{4}, ChunkId{1}, 0}});
  std::string const expected =
      "the schedule is deadlocked:\n"
      "stage 2 waits for receive(gradient, microbatch 4, chunk 1) from stage 3\n"
      "stage 3 waits for receive(activation, microbatch 5, chunk 0) from stage 2";
  REQUIRE_THROWS_AS(play_stages(stages), ScheduleDeadlock);
  REQUIRE_THROWS_WITH(play_stages(stages), expected);
  REQUIRE_THROWS_WITH(play_stages(stages, P2p::overlapped), expected);
}

TEST_CASE("two blocking sends that face each other deadlock, two buffered ones do not") {
  std::vector<HandMadeStage> stages(2);
  stages[0].exchange({send(activation, 1, 0)}).exchange({receive(gradient, 1, 1)});
  stages[1].exchange({send(gradient, 0, 1)}).exchange({receive(activation, 0, 0)});
  REQUIRE_THROWS_WITH(play_stages(stages),
                      "the schedule is deadlocked:\n"
                      "stage 0 waits for send(activation, microbatch 0, chunk 0) to stage 1\n"
                      "stage 1 waits for send(gradient, microbatch 0, chunk 0) to stage 0");
  REQUIRE_NOTHROW(play_stages(stages, P2p::overlapped));
}

TEST_CASE("a group that a stage never joins is reported with the missing stage") {
  std::vector<HandMadeStage> stages(3);
  stages[0].run(1, Stream::compute, all_stages);
  stages[1].run(1, Stream::compute, all_stages);
  stages[2].run(1);
  REQUIRE_THROWS_WITH(play_stages(stages),
                      "the schedule is deadlocked:\n"
                      "stage 0 waits for the group of all stages, where stage 2 (done) is missing\n"
                      "stage 1 waits for the group of all stages, where stage 2 (done) is missing");
}

TEST_CASE("input that no timeline follows from is refused") {
  using Catch::Contains;
  std::vector<HandMadeStage> stages(3);
  stages[1].run(1, Stream::compute, end_stages);
  REQUIRE_THROWS_WITH(play_stages(stages),
                      Contains("stage 1: found a task of the group of the ends"));
  stages[1] = HandMadeStage{}.run(1, Stream::gather);
  REQUIRE_THROWS_WITH(play_stages(stages), Contains("accepted: compute, data_parallel"));
  stages[1] = HandMadeStage{}.run(-1);
  REQUIRE_THROWS_WITH(play_stages(stages), Contains("negative duration"));
  stages[1] = HandMadeStage{}.run(1);
  stages[1].durations.clear();
  REQUIRE_THROWS_WITH(play_stages(stages), Contains("found 0 durations for 1 tasks"));
  stages[1] = HandMadeStage{};
  REQUIRE_THROWS_WITH(play_stages(stages, P2p::blocking, 1'000'000), Contains("0 to 999999"));
}

namespace {

/// Sums what it hears.
struct Listener : SilentObserver {
  SimTime ran_for{0};
  SimTime waited_for{0};
  std::vector<std::pair<int, int>> messages;  ///< start and end

  void ran(StageId, RanEntry const&, SimTime start, SimTime end) { ran_for += end - start; }
  void waited(StageId, std::int32_t, SimTime start, SimTime end) { waited_for += end - start; }
  void transferred(StageId, std::int32_t, SimTime start, SimTime end) {
    messages.emplace_back(start.count(), end.count());
  }
};

}  // namespace

TEST_CASE("an observer hears of every run, every wait and every message once") {
  std::vector<HandMadeStage> stages(2);
  stages[0].activation = message_cost(5, 20);
  stages[0].run(100).exchange({send(activation, 1, 0)});
  stages[1].run(30).exchange({receive(activation, 0, 0)}).run(40, Stream::data_parallel).drain();
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  HandMadeRun const run{stages};
  Listener listener;
  play(run.input(p2p), listener);
  REQUIRE(listener.ran_for == SimTime{100 + 30 + 40});
  // The sender waits 25 for arrival, or 20 until the buffer is free; the receiver 95; the drain 40.
  REQUIRE(listener.waited_for == SimTime{(p2p == P2p::blocking ? 25 : 20) + 95 + 40});
  REQUIRE(listener.messages == std::vector<std::pair<int, int>>{{100, 125}});
}

}  // namespace stagecraft::timeline_test
