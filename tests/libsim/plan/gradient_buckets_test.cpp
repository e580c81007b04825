#include "libsim/plan/gradient_buckets.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/plan/small_steps.hpp"

namespace stagecraft::gradient_buckets_test {
namespace {

TEST_CASE("the first chunk is reduced in buckets of at least 40 M elements, every other whole",
          "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(large_first_stage()));
  auto const first = gradient_buckets(plan, 0);
  REQUIRE(first.size() > 1);
  for (GradientBucket const& bucket : first) REQUIRE(bucket.parameters >= 40'000'000);
  REQUIRE(gradient_buckets(plan, 1).size() == 1);
}

TEST_CASE("buckets cover a chunk's blocks once, from its last to its first", "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(large_first_stage()));
  for (std::int32_t program = 0; program < 2; ++program) {
    auto end = static_cast<std::int32_t>(
        plan.programs.chunks[static_cast<std::size_t>(program)].blocks.size());
    std::int64_t parameters = 0;
    for (GradientBucket const& bucket : gradient_buckets(plan, program)) {
      REQUIRE(bucket.first_block + bucket.block_count == end);
      REQUIRE(bucket.block_count > 0);
      end = bucket.first_block;
      parameters += bucket.parameters;
    }
    REQUIRE(end == 0);
    REQUIRE(parameters == plan.stages[StageId{program}].parameters);
  }
}

TEST_CASE("overlapped reduction sends the same bytes as one reduction at the end", "[plan]") {
  TrainingConfig config = large_first_stage();
  bool const distributed = GENERATE(false, true);
  config.sharding = sharding_of(distributed);
  auto const sent = [](TrainingPlan const& plan, std::size_t stage) {
    std::int64_t bytes = 0;
    StagePlan const& rank = plan.stages[StageId::of_index(stage)];
    for (IssueEntry const& step : unroll(rank.program).entries) {
      if (step.kind != IssueEntry::Kind::run) continue;
      Task const& task = rank.tasks[static_cast<std::size_t>(step.task)];
      if (task.kind != Task::Kind::step) continue;
      Op const& op = rank.step_ops[static_cast<std::size_t>(task.op)];
      if (op.group == plan.roles.gradients) bytes += op.payload.count();
    }
    return bytes;
  };
  TrainingPlan const overlapped = make_plan(as_settled(config));
  config.parallel.overlap_gradients = false;
  TrainingPlan const at_end = make_plan(as_settled(config));
  for (std::size_t stage = 0; stage < 2; ++stage) {
    REQUIRE(sent(overlapped, stage) == sent(at_end, stage));
  }
}

TEST_CASE("no collective of a step is empty", "[plan]") {
  bool const overlap = GENERATE(false, true);
  TrainingConfig config = large_first_stage();
  config.parallel.overlap_gradients = overlap;
  for (StagePlan const& rank : make_plan(as_settled(config)).stages) {
    for (Op const& op : collectives(rank)) REQUIRE(op.payload > Bytes{0});
  }
}

TEST_CASE("overlapped reduction begins only with the last microbatch of a chunk", "[plan]") {
  TrainingPlan const plan = make_plan(as_settled(large_first_stage()));
  for (StagePlan const& rank : plan.stages) {
    int backwards = 0;
    for (IssueEntry const& step : unroll(rank.program).entries) {
      if (step.kind != IssueEntry::Kind::run) continue;
      Task const& task = rank.tasks[static_cast<std::size_t>(step.task)];
      if (task.kind == Task::Kind::backward && task.first_block == 0) ++backwards;
      if (task.stream == Stream::data_parallel) REQUIRE(backwards >= 31);
    }
    REQUIRE(backwards == 32);
  }
}

}  // namespace
}  // namespace stagecraft::gradient_buckets_test
