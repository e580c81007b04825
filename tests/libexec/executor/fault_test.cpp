#include <catch2/catch.hpp>
#include <chrono>

#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::fault_test {
namespace {

using Catch::Contains;

TrainingConfig eight_ranks() {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
  return config;
}

/// The message that a run ends with; fails the test where it goes on for more than 10 seconds.
std::string end_of(TrainingConfig const& config, SmallRun const& run) {
  auto const begin = std::chrono::steady_clock::now();
  std::string message;
  try {
    execute(config, run);
    FAIL("the run went on");
  } catch (std::exception const& error) {
    message = error.what();
  }
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{10});
  return message;
}

TEST_CASE("a rank that throws in the middle of an iteration ends all, with its place", "[faults]") {
  SmallRun run;
  run.options.steps = 3;
  Name const where = GENERATE(Name{"core_attention", "softmax"}, Name{"mlp.up", "weight_gradient"},
                              Name{"head.logits", "forward"});
  run.options.on_op = [&](RankContext const& context, Op const& op, KernelCall const&) {
    bool const is_there = context.place.tensor == 1 && context.place.data == 1 &&
                          context.state.step == 1 && op.name == where;
    if (is_there) throw std::runtime_error{"the memory has burnt"};
  };
  std::string const message = end_of(eight_ranks(), run);
  REQUIRE_THAT(message, Contains("rank ") && Contains("(stage ") && Contains("of microbatch 0") &&
                            Contains("the memory has burnt"));
}

TEST_CASE("a rank that throws before it starts ends all", "[faults]") {
  SmallRun run;
  run.options.before_first = [](RankContext const& context, RankExecutor&) {
    if (context.rank == RankId{5}) throw std::runtime_error{"no such device"};
  };
  REQUIRE_THAT(end_of(eight_ranks(), run),
               Contains("rank 5 (stage 1)") && Contains("no such device"));
}

TEST_CASE("a rank whose memory does not suffice says at which op, for which tensor", "[faults]") {
  TrainingConfig const config = eight_ranks();
  Execution const enough = execute(config);
  SmallRun run;
  run.options.memory_limit = Bytes{enough.ranks.front().at_peak.sum() - 1};
  REQUIRE_THAT(end_of(config, run), Contains("rank ") && Contains("before ") &&
                                        Contains("does not fit") && Contains("of microbatch"));
  run.options.memory_limit = Bytes{enough.ranks.front().at_peak.sum()};
  REQUIRE(execute(config, run).ranks.size() == 8);
}

}  // namespace
}  // namespace stagecraft::fault_test
