#include "libsim/engine/player/schedule_timeline.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "libsim/schedule/schedule_layout.hpp"
#include "tests/libsim/schedule/legal_shapes.hpp"

namespace stagecraft::schedule_timeline_test {

namespace {

double makespan(ScheduleShape const& shape, ChunkCosts const& costs) {
  PlayedOrder const played = play_schedule(make_pipeline_schedule(shape), costs);
  return played.in_units(played.makespan);
}

}  // namespace

TEST_CASE("with free transfers every schedule takes (nm + p - 1)(F + B)") {
  // Bubble over ideal (p-1)/(nm): Narayanan et al. 2021, section 2.2.
  for (P2p const p2p : {P2p::blocking, P2p::overlapped}) {
    for (ScheduleShape const& shape : all_shapes(p2p)) {
      CAPTURE(shape.kind, shape.stages, shape.microbatches, shape.chunks, shape.group);
      double const ideal_and_bubble = shape.microbatches * shape.chunks + shape.stages - 1;
      REQUIRE(makespan(shape, {.forward = 1.5, .backward = 3.25}) == ideal_and_bubble * 4.75);
      REQUIRE(makespan(shape, {.forward = 3, .backward = 1}) == ideal_and_bubble * 4);
    }
  }
}

TEST_CASE("blocking 1F1B pays x(2n + 2p - 5) for transfers, and x(n + 1) on two stages") {
  // Fitted to replays of Megatron-LM's recorded calls, F = 1, B = 2; n >= p.
  double const x = GENERATE(0.25, 1.0);
  int const p = GENERATE(2, 3, 4, 6, 8);
  for (int n = p; n <= 6 * p; ++n) {
    CAPTURE(p, n, x);
    double const paid = p == 2 ? x * (n + 1) : x * (2 * n + 2 * p - 5);
    ScheduleShape const shape{ScheduleKind::one_f_one_b, p, n, 1, 0, P2p::blocking};
    REQUIRE(makespan(shape, {1, 2, x}) == 3 * (n + p - 1) + paid);
  }
}

TEST_CASE("buffered 1F1B pays x(2(p-1)n/p + 2(p-2)) when p divides n") {
  double const x = GENERATE(0.25, 1.0);
  int const p = GENERATE(2, 3, 4, 6, 8);
  for (int n = p; n <= 6 * p; n += p) {
    CAPTURE(p, n, x);
    ScheduleShape const shape{ScheduleKind::one_f_one_b, p, n, 1, 0, P2p::overlapped};
    REQUIRE(makespan(shape, {1, 2, x}) ==
            3 * (n + p - 1) + x * (2.0 * (p - 1) * n / p + 2 * (p - 2)));
  }
}

TEST_CASE("the examples of 1F1B with transfers of 1 take 85 and 92, 185 and 192") {
  auto const take = [](int p, int n, P2p p2p) {
    return makespan({ScheduleKind::one_f_one_b, p, n, 1, 0, p2p}, {1, 2, 1});
  };
  REQUIRE(take(4, 16, P2p::overlapped) == 85);
  REQUIRE(take(4, 16, P2p::blocking) == 92);
  REQUIRE(take(8, 32, P2p::overlapped) == 185);
  REQUIRE(take(8, 32, P2p::blocking) == 192);
}

TEST_CASE(
    "interleaved with transfers of 1 takes 119 buffered and 146 blocking, and G = 8 hides more") {
  auto const take = [](int group, P2p p2p) {
    return makespan({ScheduleKind::interleaved, 4, 16, 2, group, p2p}, {1, 2, 1});
  };
  REQUIRE(take(4, P2p::overlapped) == 119);
  REQUIRE(take(4, P2p::blocking) == 146);
  REQUIRE(take(8, P2p::overlapped) == 111);
}

TEST_CASE("GPipe's transfers are paid once a stage each way: 2x(p-1) buffered") {
  // Each of the p - 1 hops delays the first forward, and likewise the first backward.
  for (int const p : {1, 2, 4, 7}) {
    for (int const n : {1, 5, 12}) {
      CAPTURE(p, n);
      REQUIRE(makespan({ScheduleKind::gpipe, p, n, 1, 0, P2p::overlapped}, {1, 2, 0.5}) ==
              3 * (n + p - 1) + 2 * 0.5 * (p - 1));
    }
  }
}

TEST_CASE("blocking GPipe on two stages, two microbatches, transfers of 1 takes 13 by hand count") {
  // Stage 0: F0 0-1, send 1-2, F1 2-3, send 3-4, where stage 1 has done F0 2-3. Stage 1: F1 4-5,
  // B0 5-7, send 7-8, B1 8-10. Stage 0: B0 8-10. Send 10-11. Stage 0: B1 11-13.
  REQUIRE(makespan({ScheduleKind::gpipe, 2, 2, 1, 0, P2p::blocking}, {1, 2, 1}) == 13);
}

TEST_CASE("decimal costs give exact makespans") {
  ScheduleShape const shape{ScheduleKind::one_f_one_b, 4, 8, 1, 0, P2p::blocking};
  REQUIRE(makespan(shape, {0.1, 0.2, 0}) == 3.3);  // 11 * 0.3
  REQUIRE(makespan(shape, {1e-9, 2e-9, 0}) == 33e-9);
  REQUIRE(makespan(shape, {1e9, 2e9, 0}) == 33e9);
  REQUIRE(makespan(shape, {0.123456789, 0.2, 0}) == 3.558024679);  // 11 * 0.323456789
}

TEST_CASE("a rank is busy for its own task and the rest of its time is waiting") {
  for (ScheduleShape const& shape : all_shapes(P2p::blocking)) {
    PlayedOrder const played = play_schedule(make_pipeline_schedule(shape), {1, 2, 0.25});
    for (StageRuns const& rank : played.stages) {
      REQUIRE(played.in_units(rank.busy) == 3.0 * shape.microbatches * shape.chunks);
      REQUIRE(rank.end == rank.busy + rank.transfer + rank.bubble);
    }
  }
}

TEST_CASE("computations of a stage do not overlap and follow what they depend on") {
  ScheduleShape const shape{ScheduleKind::interleaved, 4, 14, 3, 5, P2p::overlapped};
  PlayedOrder const played = play_schedule(make_pipeline_schedule(shape), {1, 2, 0.25});
  int const last = shape.stages * shape.chunks - 1;
  auto const index = [&](Pass kind, int virtual_stage, int microbatch) {
    int const row = kind == Pass::forward ? virtual_stage : 2 * last + 1 - virtual_stage;
    return static_cast<std::size_t>(row * shape.microbatches + microbatch);
  };
  std::vector<ChunkSpan> spans(static_cast<std::size_t>(2 * (last + 1) * shape.microbatches));
  for (std::size_t stage = 0; stage < played.stages.size(); ++stage) {
    SimTime before{0};
    for (ChunkSpan const& span : played.stages[stage].runs) {
      REQUIRE(span.start >= before);
      before = span.end;
      int const here = span.run.chunk.value() * shape.stages + static_cast<int>(stage);
      spans.at(index(span.run.pass, here, span.run.microbatch.value())) = span;
    }
  }
  // Rows are virtual stages forward, then back: each starts a hop after the row before it ended,
  // but for the turn on the last one.
  for (int row = 1; row <= 2 * last + 1; ++row) {
    SimTime const hop{row == last + 1 ? 0 : std::llround(0.25 * played.ticks_per_unit)};
    for (int microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
      auto const at = static_cast<std::size_t>(row * shape.microbatches + microbatch);
      auto const from = at - static_cast<std::size_t>(shape.microbatches);
      REQUIRE(spans[at].start >= spans[from].end + hop);
    }
  }
}

TEST_CASE("costs that are no costs are refused") {
  PipelineSchedule const schedule = make_pipeline_schedule({});
  REQUIRE_THROWS_WITH(play_schedule(schedule, {-1, 2, 0}), Catch::Contains("found '-1'"));
  REQUIRE_THROWS_WITH(play_schedule(schedule, {1, 1e300, 0}), Catch::Contains("found '1e+300'"));
  REQUIRE_THROWS_WITH(play_schedule(schedule, {0, 0, 1}), Catch::Contains("forward and backward"));
}

}  // namespace stagecraft::schedule_timeline_test
