#include "libsim/engine/schedule_loop.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "tests/libsim/plan/legal_shapes.hpp"

namespace stagecraft {
namespace {

/// A step with its transfers in place of their numbers, all microbatches moved by so many.
struct MovedStep {
  ScheduleStep::Kind kind;
  std::int32_t chunk, microbatch;
  std::vector<Transfer> transfers;
  bool operator==(MovedStep const&) const = default;
};

MovedStep moved(StageSchedule const& stage, std::size_t index, int by) {
  ScheduleStep const& step = stage.steps[index];
  bool const computes =
      step.kind == ScheduleStep::Kind::forward || step.kind == ScheduleStep::Kind::backward;
  MovedStep result{step.kind, step.chunk, computes ? step.microbatch + by : 0, {}};
  for (std::int32_t i = step.first; i < step.first + step.count; ++i) {
    Transfer transfer = stage.transfers[static_cast<std::size_t>(i)];
    transfer.microbatch += by;
    transfer.message = 0;  // numbered by how many microbatches there are
    result.transfers.push_back(transfer);
  }
  return result;
}

/// First step that is a forward behind so many backwards.
std::size_t border(StageSchedule const& stage, int backwards) {
  for (std::size_t i = 0; i < stage.steps.size(); ++i) {
    if (stage.steps[i].kind == ScheduleStep::Kind::forward && backwards == 0) return i;
    if (stage.steps[i].kind == ScheduleStep::Kind::backward) --backwards;
  }
  FAIL("the schedule has no such border");
  return 0;
}

/// Where transfers cross the end of a lap, the numbers of their microbatches are those of the lap
/// or of what follows it: with its last steps written down as in the lap, they are the same.
std::vector<MovedStep> unrolled(ScheduleLoop const& loop, StageSchedule const& stage, int number) {
  std::size_t const begin = border(stage, loop.backwards_before(number));
  std::size_t const end = border(stage, loop.backwards_before(number) + loop.lap_backwards);
  int const period = loop.lap_backwards / loop.shape.chunks;
  std::vector<MovedStep> steps;
  for (std::size_t i = 0; i < begin; ++i) steps.push_back(moved(stage, i, 0));
  for (int lap = 0; lap < loop.laps; ++lap) {
    for (std::size_t i = begin; i < end; ++i) steps.push_back(moved(stage, i, lap * period));
  }
  for (std::size_t i = end; i < stage.steps.size(); ++i) {
    steps.push_back(moved(stage, i, (loop.laps - 1) * period));
  }
  return steps;
}

TEST_CASE("a schedule is its loop unrolled, for every legal shape", "[engine]") {
  P2p const p2p = GENERATE(P2p::blocking, P2p::overlapped);
  int loops = 0;
  for (ScheduleShape shape : all_shapes(p2p)) {
    // The table of shapes ends at three groups; steady phases need more.
    if (shape.kind == ScheduleKind::interleaved) shape.microbatches += 3 * shape.group;
    ScheduleLoop const loop = find_loop(checked_shape(shape));
    if (!loop.has_loop()) continue;
    ++loops;
    PipelineSchedule const whole = make_pipeline_schedule(shape);
    PipelineSchedule const once = make_pipeline_schedule(loop.shape);
    for (std::size_t stage = 0; stage < whole.stages.size(); ++stage) {
      CAPTURE(shape.stages, shape.microbatches, shape.chunks, shape.group, stage, loop.laps);
      std::vector<MovedStep> const steps =
          unrolled(loop, once.stages[stage], static_cast<int>(stage));
      REQUIRE(steps.size() == whole.stages[stage].steps.size());
      bool is_same = true;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        is_same = is_same && steps[i] == moved(whole.stages[stage], i, 0);
      }
      REQUIRE(is_same);
    }
  }
  REQUIRE(loops > 500);
}

TEST_CASE("GPipe and a short steady phase have no loop", "[engine]") {
  REQUIRE_FALSE(find_loop({ScheduleKind::gpipe, 4, 100, 1, 0, P2p::blocking}).has_loop());
  REQUIRE_FALSE(find_loop({ScheduleKind::one_f_one_b, 4, 6, 1, 0, P2p::blocking}).has_loop());
  REQUIRE(find_loop({ScheduleKind::one_f_one_b, 4, 7, 1, 0, P2p::blocking}).laps == 2);
}

}  // namespace
}  // namespace stagecraft
