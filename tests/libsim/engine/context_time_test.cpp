#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::context_time_test {
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
  return to_seconds(simulate(make_plan(as_settled(config)), system).iteration);
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

/// Seconds of a pass's attention and messages in a ring of four, as the simulator has them.
double ring_seconds(double rate) {
  TrainingConfig config = split_run();
  config.model.sequence = 8192;
  config.batch = {.global = 1, .micro = 1};
  config.parallel.context = 4;
  config.parallel.context_method = ContextMethod::ring;
  System system = invented_system();
  system.node.p2p.value = {.latency = {0}, .bandwidth = {rate}, .table = {}};
  system.calibration.overlap_slowdown.value = 0;
  return to_seconds(simulate(make_plan(as_settled(config)), system).iteration);
}

TEST_CASE("a step's attention hides the message of the next one, and no more", "[engine]") {
  // 8 layers of h = 128: 2048 rows of 256 elements of keys and values. Forward three messages of
  // 1 MiB, backward one of 1, two of 2 and one of 1 MiB; each is as long as it is or as the step
  // that it is beside. So slow that no step hides more than itself:
  double const message = 2048.0 * 256 * 2;
  double const slow = ring_seconds(1e6) - ring_seconds(2e6);
  REQUIRE(slow == Approx(8 * 9 * message * (1 / 1e6 - 1 / 2e6)).epsilon(1e-6));
  // So fast that every message is over before the step is: no time at all.
  REQUIRE(ring_seconds(1e15) == Approx(ring_seconds(2e15)).epsilon(1e-9));
  REQUIRE(ring_seconds(1e15) < ring_seconds(1e10));
}

/// Seconds of an iteration of a ring of four with these fractions of the peak for attention, whose
/// messages take no time.
double attention_seconds(ContextMethod method, double efficiency) {
  TrainingConfig config = split_run();
  config.model.sequence = 8192;
  config.batch = {.global = 1, .micro = 1};
  config.parallel.context = 4;
  config.parallel.context_method = method;
  System system = invented_system();
  system.node.p2p.value = {.latency = {0}, .bandwidth = {1e15}, .table = {}};
  system.accelerator.bandwidth.value = {1e18};
  system.calibration.flash_forward_efficiency.value = efficiency;
  system.calibration.flash_backward_efficiency.value = efficiency;
  return to_seconds(simulate(make_plan(as_settled(config)), system).iteration);
}

TEST_CASE("with consecutive rows the others wait for the last rank", "[engine]") {
  auto const attention = [](ContextMethod method) {
    return attention_seconds(method, 0.01) - attention_seconds(method, 0.02);
  };
  // 7 halves of s/4 x s/4 in place of 4.
  REQUIRE(attention(ContextMethod::contiguous_ring) / attention(ContextMethod::ring) ==
          Approx(7.0 / 4).epsilon(1e-6));
}

TEST_CASE("the work of all ranks together does not depend on which rows they have", "[engine]") {
  auto const flops = [](ContextMethod method) {
    TrainingConfig config = split_run();
    config.parallel.context_method = method;
    return simulate(make_plan(as_settled(config)), invented_system()).hardware_flops;
  };
  REQUIRE(flops(ContextMethod::contiguous_ring) == flops(ContextMethod::ring));
}

}  // namespace
}  // namespace stagecraft::context_time_test
