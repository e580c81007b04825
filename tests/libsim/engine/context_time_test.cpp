#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft {
namespace {

/// 8 layers, h = k = 128, s = 64 on two ranks that split each sequence of two; 8 microbatches.
TrainingConfig split_run() {
  TrainingConfig config = modest_run(1, 1);
  config.model.attention = Attention::flash;
  config.model.attention_dropout = 0;
  config.parallel.context = 2;
  config.parallel.context_method = ContextMethod::ulysses;
  return config;
}

/// Seconds of an iteration with this rate of a node's links for all but all-reduces.
double seconds(RecomputePolicy const& policy, double rate) {
  TrainingConfig config = split_run();
  config.recompute = {policy};
  System system = invented_system();
  system.node.all_gather.value.bandwidth = {rate};
  return to_seconds(simulate(make_plan(config), system).iteration);
}

TEST_CASE("nothing hides the exchanges of ranks that split sequences", "[engine]") {
  // Each pass of a layer moves q, k, v and the context of 32 x 2 tokens in 16 bits, half of it to
  // the other rank, at 0.886 of the rate of an all-gather. Recomputed layers move them a third
  // time.
  double const pass = 2.0 * 32 * 2 * 4 * 128 / 2 / 0.886;
  double const slower = 1 / 100e9 - 1 / 200e9;
  auto const difference = [](RecomputePolicy const& policy) {
    return seconds(policy, 100e9) - seconds(policy, 200e9);
  };
  REQUIRE(difference({}) == Approx(8 * 8 * 2 * pass * slower).epsilon(1e-4));
  REQUIRE(difference({.granularity = RecomputeGranularity::full}) ==
          Approx(8 * 8 * 3 * pass * slower).epsilon(1e-4));
}

}  // namespace
}  // namespace stagecraft
