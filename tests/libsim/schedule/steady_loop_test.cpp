#include "libsim/schedule/steady_loop.hpp"

#include <catch2/catch.hpp>
#include <cstddef>

#include "libsim/schedule/schedule_layout.hpp"
#include "tests/libsim/schedule/legal_shapes.hpp"

namespace stagecraft::steady_loop_test {
namespace {

bool repeats(StageProgram const& program) {
  for (IssueEntry const& entry : program.entries) {
    if (entry.kind == IssueEntry::Kind::repeat) return true;
  }
  return false;
}

TEST_CASE("a schedule is its loop unrolled, for every legal shape", "[plan]") {
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  int loops = 0;
  for (ScheduleShape shape : all_shapes(p2p)) {
    // The table of shapes ends at three groups; steady phases need more.
    if (shape.kind == ScheduleKind::interleaved) shape.microbatches += 3 * shape.group;
    shape = checked_shape(shape);
    SteadyLoop const loop = find_loop(shape);
    if (!loop.has_loop()) continue;
    ++loops;
    PipelineSchedule const whole = lay_out(shape, {.shape = shape});
    PipelineSchedule const looped = lay_out(shape, loop);
    for (std::size_t stage = 0; stage < whole.stages.size(); ++stage) {
      CAPTURE(shape.stages, shape.microbatches, shape.chunks, shape.group, stage, loop.times);
      REQUIRE(whole.stages[StageId::of_index(stage)].steady_loop == StageProgram::none);
      REQUIRE(looped.stages[StageId::of_index(stage)].steady_loop != StageProgram::none);
      IssueOrder const expected = unroll(whole.stages[StageId::of_index(stage)]);
      IssueOrder const found = unroll(looped.stages[StageId::of_index(stage)]);
      REQUIRE(found.entries == expected.entries);
      REQUIRE(found.transfers == expected.transfers);
    }
  }
  REQUIRE(loops > 500);
}

TEST_CASE("GPipe and a short steady phase have no steady-state loop", "[plan]") {
  REQUIRE_FALSE(find_loop({ScheduleKind::gpipe, 4, 100, 1, 0, P2p::blocking}).has_loop());
  REQUIRE_FALSE(find_loop({ScheduleKind::one_f_one_b, 4, 6, 1, 0, P2p::blocking}).has_loop());
  REQUIRE(find_loop({ScheduleKind::one_f_one_b, 4, 7, 1, 0, P2p::blocking}).times == 2);
}

TEST_CASE("with blocking messages GPipe takes few entries, however many microbatches there are",
          "[plan]") {
  PipelineSchedule const schedule =
      make_pipeline_schedule({ScheduleKind::gpipe, 4, 1000, 1, 0, P2p::blocking});
  for (StageProgram const& program : schedule.stages) {
    REQUIRE(repeats(program));
    REQUIRE(program.entries.size() < 30);
    REQUIRE(unroll(program).entries.size() > 2000);
  }
}

}  // namespace
}  // namespace stagecraft::steady_loop_test
