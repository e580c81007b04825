#include "libsim/fit/memory_factor.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::memory_factor_test {
namespace {

constexpr char const* paper = STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present.yaml";

RunConfig run_with(std::string const& software) {
  return load_run_config(paper, {"software=" + software});
}

StageReservation reserved(RunConfig const& run) {
  TrainingPlan const plan = make_plan(settled(run.training, run.system));
  return StageAllocators{plan, run.system}.reserve(StageId{0}, 0).reservation;
}

/// The mean of a normal distribution above `least`, by the trapezoidal rule.
double mean_above(double least, double bias, double spread) {
  double weight = 0;
  double sum = 0;
  for (int i = 0; i <= 200'000; ++i) {
    double const x = least + i * 1e-5;
    double const density = std::exp(-(x - bias) * (x - bias) / (2 * spread * spread));
    weight += density;
    sum += x * density;
  }
  return sum / weight;
}

}  // namespace

TEST_CASE("measured bytes of a run give the factor with which it holds them", "[fit]") {
  using Kind = MemoryObservation::Kind;
  RunConfig const run = run_with("nanotron");
  StageReservation const before = reserved(run);
  for (Kind const kind : {Kind::reserved, Kind::allocated}) {
    std::int64_t const predicted = kind == Kind::reserved ? before.reserved : before.allocated;
    Bytes const seen{predicted * 105 / 100};
    MemoryFactor const fitted = fit_memory_factor(run, {.kind = kind, .bytes = seen}, "mine.yaml");
    REQUIRE(fitted.value() == Approx(1.05));
    REQUIRE(std::abs(fitted.predicted - seen.count()) <= 1);
    REQUIRE(fitted.is_expected());
    REQUIRE_THAT(fitted.run.system.software.memory.factor.fitted, Catch::Contains("mine.yaml"));
    // What the measured run shows replaces the bias of the runs of others.
    MemoryFactor const again = fit_memory_factor(
        fitted.run, {.kind = kind, .bytes = Bytes{9 * seen.count() / 10}}, "mine.yaml");
    REQUIRE(again.prior == fitted.value());
    REQUIRE(again.value() == Approx(9 * fitted.value() / 10));
    REQUIRE(again.interval[0] * again.interval[1] ==
            Approx(static_cast<double>(seen.count()) * static_cast<double>(seen.count())));
    REQUIRE(!again.is_expected());
  }
}

TEST_CASE("fewer bytes than parameters, gradients and optimizer state have are refused", "[fit]") {
  // 22B on 8 ranks: 18 bytes of each of 2.76 billion parameters are 46 GiB.
  REQUIRE_THROWS_WITH(fit_memory_factor(run_with("nanotron"),
                                        {.kind = MemoryObservation::Kind::reserved,
                                         .bytes = Bytes{std::int64_t{45} << 30}},
                                        "mine.yaml"),
                      Catch::Contains("--reserved: found '45 GiB'; accepted: at least the 46"));
}

TEST_CASE("a factor multiplies all that an allocator holds, against the device's room", "[fit]") {
  StageReservation const one = reserved(run_with("nanotron"));
  RunConfig run = run_with("nanotron");
  run.system.software.memory.factor.value = 1.1;
  StageReservation const more = reserved(run);
  REQUIRE(more.allocated == std::llround(1.1 * static_cast<double>(one.allocated)));
  REQUIRE(more.resident == std::llround(1.1 * static_cast<double>(one.resident)));
  REQUIRE_FALSE(more.runs_out);
  // The device has 80 GiB.
  run.system.software.memory.factor.value = 80.0 * (1 << 30) / static_cast<double>(one.allocated);
  REQUIRE(reserved(run).runs_out);
}

TEST_CASE("that a run died gives the mean of what is left of the prior", "[fit]") {
  // configs/residuals.yaml: nanotron on one stage. The room is what the device leaves.
  constexpr double bias = -0.0064;
  constexpr double spread = 0.0740;
  RunConfig const run = run_with("nanotron");
  MemoryFactor const died = fit_memory_factor(run, {}, "mine.yaml");
  double const failing = static_cast<double>(died.room) / static_cast<double>(died.needed);
  for (double const factor : {0.999, 1.001}) {
    RunConfig other = run;
    other.system.software.memory.factor.value = factor * failing;
    REQUIRE(reserved(other).runs_out == (factor > 1));
  }
  REQUIRE(std::log(died.value()) ==
          Approx(mean_above(std::log(failing), bias, spread)).epsilon(1e-3));
  REQUIRE(died.verdict == Verdict::does_not_fit);
  REQUIRE(died.lives.value() < died.lives_before.value());
  REQUIRE(!died.is_expected());
  // The fitted stack explains that the run died: to hear it again changes nothing.
  MemoryFactor const again = fit_memory_factor(died.run, {}, "mine.yaml");
  REQUIRE(again.value() == died.value());
  REQUIRE(!again.standard_error);
}

TEST_CASE("the request that failed tells more if it comes before the peak", "[fit]") {
  RunConfig const run = run_with("nanotron");
  MemoryFactor const died = fit_memory_factor(run, {}, "mine.yaml");
  // The output of a layer's second MLP product, s b h / t in 16 bits with sequence parallelism.
  Bytes const output{2 * 2048LL * 4 * 6144 / 8};
  MemoryFactor const known = fit_memory_factor(run, {.tried = output}, "mine.yaml");
  REQUIRE(known.makes_request);
  REQUIRE(known.needed <= died.needed);
  REQUIRE(known.value() >= died.value());
  MemoryFactor const unknown = fit_memory_factor(run, {.tried = Bytes{12'345}}, "mine.yaml");
  REQUIRE(!unknown.makes_request);
  REQUIRE(unknown.value() == died.value());
}

TEST_CASE("a request that no device can serve says nothing of a run's memory", "[fit]") {
  // A100 of 80 GiB.
  REQUIRE_THROWS_WITH(
      fit_memory_factor(run_with("nanotron"), {.tried = Bytes{std::int64_t{200} << 30}}, "m.yaml"),
      Catch::Contains("--tried-bytes: found '200 GiB'; accepted: at most the 80.0 GiB of a NVIDIA "
                      "A100"));
}

TEST_CASE(
    "without measured runs of a stack the widest spread gives the probability that a run lives",
    "[fit]") {
  // configs/residuals.yaml: nanotron on one stage has the largest spread.
  constexpr double spread = 0.0740;
  RunConfig const run = run_with("megatron-core");
  MemoryFactor const fitted = fit_memory_factor(
      run, {.kind = MemoryObservation::Kind::reserved, .bytes = Bytes{std::int64_t{66} << 30}},
      "m.yaml");
  double const distance =
      std::log(static_cast<double>(fitted.room) / static_cast<double>(fitted.predicted));
  REQUIRE(fitted.lives.value() ==
          Approx(std::erfc(-distance / spread / std::sqrt(2.0)) / 2).margin(1e-3));
  REQUIRE(fitted.why_not_known.empty());
  REQUIRE_THAT(fitted.evidence, Catch::Contains("as too few of megatron-core were measured"));
  // Megatron-LM of 2022 does not say what it allocates beside the tensors.
  MemoryFactor const unknown = fit_memory_factor(run_with("megatron-2022"), {}, "m.yaml");
  REQUIRE_FALSE(unknown.lives);
  REQUIRE_THAT(unknown.why_not_known, Catch::Contains("megatron-2022"));
}

}  // namespace stagecraft::memory_factor_test
