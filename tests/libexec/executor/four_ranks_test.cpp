#include <catch2/catch.hpp>

#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"

// An executable of its own, small enough to be built and run with the thread sanitizer too.

namespace stagecraft::four_ranks_test {
namespace {

/// Everything that four ranks do together, a change of the one-rank run each.
TrainingConfig four_ranks(std::string const& what) {
  TrainingConfig config = small_gpt(Precision::fp64);
  config.recompute.front().granularity = RecomputeGranularity::selective;
  if (what == "tensor with sequence parallelism") {
    config.parallel = {.tensor = 4, .sequence = true};
  } else if (what == "GPipe") {
    config.parallel.pipeline = 4;
    config.schedule.kind = ScheduleKind::gpipe;
  } else if (what == "1F1B with scattered messages") {
    config.parallel = {.tensor = 2, .pipeline = 2};
  } else if (what == "interleaved, overlapped messages") {
    config.parallel = {.tensor = 2, .pipeline = 2, .interleave = 2, .sequence = true};
    config.schedule = {.kind = ScheduleKind::interleaved, .p2p = P2p::overlapped};
  } else if (what == "distributed optimizer") {
    config.parallel.data = 4;
    config.sharding = sharding_of(true);
  } else if (what == "overlapped gradients, distributed optimizer") {
    config.parallel = {.pipeline = 2, .data = 2, .overlap_gradients = true};
    config.sharding = sharding_of(true);
  }
  return config;
}

TEST_CASE("four ranks lose what one does, whatever they overlap", "[four ranks]") {
  std::string const what =
      GENERATE(as<std::string>{}, "tensor with sequence parallelism", "GPipe",
               "1F1B with scattered messages", "interleaved, overlapped messages",
               "distributed optimizer", "overlapped gradients, distributed optimizer");
  CAPTURE(what);
  FreeCommunication const costs;
  SmallRun run{.gemm = GENERATE(GemmKind::plain, GemmKind::openblas), .costs = &costs};
  run.options.steps = 2;
  run.options.traces = true;
  Execution const one = execute(four_ranks("one rank"), run);
  run.options.is_virtual = GENERATE(false, true);
  Execution const four = execute(four_ranks(what), run);
  REQUIRE(four.ranks.size() == 4);
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    REQUIRE(four.steps[i].loss == Approx(one.steps[i].loss).epsilon(1e-12));
    REQUIRE(four.steps[i].gradient_norm == Approx(one.steps[i].gradient_norm).epsilon(1e-10));
  }
}

TEST_CASE("four ranks with kernel threads of their own lose what one does", "[four ranks]") {
  SmallRun run{.threads = 2};
  double const loss = execute(four_ranks("one rank"), run).steps.front().loss;
  Execution const four = execute(four_ranks("1F1B with scattered messages"), run);
  REQUIRE(four.steps.front().loss == Approx(loss).epsilon(1e-12));
}

TEST_CASE("a rank that throws ends four", "[four ranks]") {
  std::string const what =
      GENERATE(as<std::string>{}, "tensor with sequence parallelism",
               "interleaved, overlapped messages", "overlapped gradients, distributed optimizer");
  SmallRun run;
  run.options.steps = 2;
  run.options.on_op = [](RankContext const& context, Op const& op, KernelCall const&) {
    bool const is_there = context.rank == RankId{2} && context.state.step == 1;
    if (is_there && op.kind == OpKind::gemm) throw std::runtime_error{"the memory has burnt"};
  };
  REQUIRE_THROWS_WITH(execute(four_ranks(what), run), Catch::Contains("rank 2"));
}

}  // namespace
}  // namespace stagecraft::four_ranks_test
