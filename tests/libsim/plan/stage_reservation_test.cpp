#include "libsim/plan/stage_reservation.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/stage_memory.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft {
namespace {

/// The 175B model of the paper with a fourth of its layers and microbatches.
TrainingConfig quarter(ScheduleKind kind, RecomputeGranularity granularity) {
  TrainingConfig config = run_of(paper_models[1], granularity, true);
  config.model.layers = 24;
  config.batch.global = 16;
  config.schedule.kind = kind;
  config.parallel.interleave = kind == ScheduleKind::interleaved ? 3 : 1;
  config.schedule.group = kind == ScheduleKind::interleaved ? config.parallel.pipeline : 0;
  return config;
}

std::vector<StageReservation> reserved_by(TrainingConfig config,
                                          AllocatorKind kind,
                                          std::int64_t capacity = unlimited_capacity) {
  config.memory.allocator = kind;
  return reserve_stages(make_plan(config), capacity);
}

}  // namespace

TEST_CASE("an arena reserves the peak that a stage's memory sums to", "[plan]") {
  // Memory is summed from profiles of tasks, the arena is filled buffer by buffer.
  TrainingConfig const config =
      quarter(GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved),
              GENERATE(RecomputeGranularity::none, RecomputeGranularity::full));
  std::vector<StageMemory> const memory = peak_memory(make_plan(config));
  std::vector<StageReservation> const arena = reserved_by(config, AllocatorKind::arena);
  for (std::size_t stage = 0; stage < memory.size(); ++stage) {
    REQUIRE(arena[stage].reserved == memory[stage].at_peak.sum());
  }
}

TEST_CASE("PyTorch's allocator reserves more than is counted, in segments of 2 MiB", "[plan]") {
  TrainingConfig const config = quarter(ScheduleKind::one_f_one_b, RecomputeGranularity::selective);
  std::vector<StageMemory> const memory = peak_memory(make_plan(config));
  std::vector<StageReservation> const reserved = reserved_by(config, AllocatorKind::pytorch);
  for (std::size_t stage = 0; stage < memory.size(); ++stage) {
    std::int64_t const counted = memory[stage].at_peak.sum();
    REQUIRE(reserved[stage].allocated >= counted);
    REQUIRE(reserved[stage].reserved >= reserved[stage].allocated);
    REQUIRE(reserved[stage].reserved % (2 << 20) == 0);
    // Fragments of such runs: 1.07 to 1.17 at most (recorded stages of tests/oracle/allocator).
    REQUIRE(static_cast<double>(reserved[stage].reserved) < 1.2 * static_cast<double>(counted));
  }
}

TEST_CASE("what is left out of a replay changes little", "[plan]") {
  TrainingConfig const config =
      quarter(GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved),
              GENERATE(RecomputeGranularity::none, RecomputeGranularity::selective,
                       RecomputeGranularity::full));
  TrainingPlan const plan = make_plan(config);
  for (StagePlan const& stage : plan.stages) {
    auto const reserved = [&](ReplayExtent extent) {
      return static_cast<double>(reserve_stage(plan, stage, unlimited_capacity, {}, extent).reserved);
    };
    // Ranks with equal tensors differ by 0.3 % in the median and 2.6 % in one case of ten
    // (SimuMax, 55 groups of ranks).
    REQUIRE(reserved(ReplayExtent::until_steady) ==
            Approx(reserved(ReplayExtent::whole)).epsilon(0.01));
  }
}

TEST_CASE("a stage that its allocator cannot serve says so, and what it would take", "[plan]") {
  TrainingConfig config = quarter(ScheduleKind::one_f_one_b, RecomputeGranularity::none);
  StageReservation const wanted = reserved_by(config, AllocatorKind::pytorch).front();
  REQUIRE(!wanted.runs_out);
  std::int64_t const counted = peak_memory(make_plan(config)).front().at_peak.sum();
  StageReservation const refused = reserved_by(config, AllocatorKind::pytorch, counted - 1).front();
  REQUIRE(refused.runs_out);
  REQUIRE(refused.reserved == wanted.reserved);
  REQUIRE(reserved_by(config, AllocatorKind::arena, counted).front().runs_out == false);
  config.memory.allocator_settings = "backend:cudaMallocAsync";
  StageReservation const pool = reserved_by(config, AllocatorKind::pytorch).front();
  REQUIRE(pool.reserved - counted < 2 << 20);
}

}  // namespace stagecraft
