#include "libsim/fit/stack_factor.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "libsim/engine/prediction.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/fit/fit_output.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::stack_factor_test {
namespace {

constexpr char const* paper = STAGECRAFT_SOURCE_DIR "/configs/paper/";

}  // namespace

TEST_CASE("a stack's factor multiplies the iteration and each of its parts", "[fit]") {
  auto const simulated = [](std::string const& factor) {
    RunConfig const run = load_run_config(std::string{paper} + "22b-present.yaml",
                                          {"software=megatron-2022", "software.factor=" + factor});
    return simulate(make_plan(as_settled(run.training)), run.system);
  };
  Simulation const one = simulated("1");
  Simulation const two = simulated("2");
  REQUIRE(to_seconds(two.iteration) == Approx(2 * to_seconds(one.iteration)).epsilon(1e-9));
  REQUIRE(to_seconds(two.breakdown.shares.backward) ==
          Approx(2 * to_seconds(one.breakdown.shares.backward)).epsilon(1e-9));
  REQUIRE(to_seconds(two.breakdown.shares.optimizer) ==
          Approx(2 * to_seconds(one.breakdown.shares.optimizer)).epsilon(1e-9));
  REQUIRE(two.stages[0].peak() == one.stages[0].peak());
}

TEST_CASE("after one measurement the prediction is what was measured", "[fit]") {
  for (char const* const name : {"22b-present.yaml", "175b-present.yaml"}) {
    CAPTURE(name);
    RunConfig const run = load_run_config(std::string{paper} + name, {});
    StackFactor const fitted = fit_factor(run, Seconds{12.9}, name);
    REQUIRE(fitted.predicted == Approx(12.9).epsilon(1e-8));
    REQUIRE(to_seconds(predict(as_settled(fitted.run.training), fitted.run.system).iteration) ==
            fitted.predicted);
    REQUIRE(fitted.value() == Approx(12.9 / fitted.predicted_before));
    REQUIRE(fitted.run.system.calibration == run.system.calibration);
    REQUIRE(fitted.run.system.software.host == run.system.software.host);
    REQUIRE_THAT(fitted.run.system.software.factor.fitted,
                 Catch::Contains("one measurement of " + std::string{name}));
    // A second measurement of the fitted run starts from its factor.
    StackFactor const again = fit_factor(fitted.run, Seconds{12.9 * 2}, name);
    REQUIRE(again.prior == fitted.value());
    REQUIRE(again.value() == Approx(2 * fitted.value()));
  }
}

TEST_CASE("a measured time outside of the prediction's own interval is doubted", "[fit]") {
  RunConfig const run = load_run_config(std::string{paper} + "22b-present.yaml", {});
  auto const simulated = simulate(make_plan(as_settled(run.training)), run.system);
  auto const [low, high] = interval_of(simulated, run.training, run.system).seconds.value();
  for (double const seconds : {1.01 * low, 0.99 * high}) {
    REQUIRE_THAT(factor_text(fit_factor(run, Seconds{seconds}, "r.yaml")),
                 !Catch::Contains("Check that"));
  }
  for (double const seconds : {0.99 * low, 1.01 * high}) {
    REQUIRE_THAT(factor_text(fit_factor(run, Seconds{seconds}, "r.yaml")),
                 Catch::Contains("own 80 % interval"));
  }
}

TEST_CASE("a factor that hardly any measured run needs is doubted", "[fit]") {
  RunConfig const run = load_run_config(std::string{paper} + "22b-present.yaml", {"system=mi300x"});
  REQUIRE_FALSE(fit_factor(run, Seconds{1}, "r.yaml").interval.has_value());
  auto const text = [&](double seconds) {
    return factor_text(fit_factor(run, Seconds{seconds}, "r.yaml"));
  };
  double const predicted = fit_factor(run, Seconds{1}, "r.yaml").predicted_before;
  // 80 % of dense runs anywhere are from 46.4 % too short to as much too long in the median, after
  // a bias of 2.2 % (experiments/validation, Intervals).
  for (double const factor : {0.8, 1.0, 1.25}) {
    REQUIRE_THAT(text(factor * predicted), !Catch::Contains("Check that"));
  }
  for (double const factor : {0.5, 2.0, 2.8}) {
    REQUIRE_THAT(text(factor * predicted), Catch::Contains("of another run or of other software") &&
                                               Catch::Contains("Check that"));
  }
  for (double const factor : {0.48, 3.2}) {
    REQUIRE_THAT(text(factor * predicted),
                 Catch::Contains("three times as long") && Catch::Contains("Check that"));
  }
}

TEST_CASE("without an interval a fit says that nothing judges it, and what simulate then gives",
          "[fit]") {
  // No sequence as long was measured on the machine.
  RunConfig const run =
      load_run_config(std::string{paper} + "22b-present.yaml",
                      {"model.attention=flash", "model.sequence=16384", "software=megatron-2022"});
  StackFactor const fitted = fit_factor(run, Seconds{20}, "r.yaml");
  REQUIRE_FALSE(fitted.interval.has_value());
  Simulation const after = simulate(make_plan(as_settled(fitted.run.training)), fitted.run.system);
  auto const interval = interval_of(after, fitted.run.training, fitted.run.system).seconds;
  REQUIRE(interval.has_value());
  REQUIRE(fitted.interval_after.value()[0] == Approx((*interval)[0]).epsilon(1e-8));
  REQUIRE(fitted.interval_after.value()[1] == Approx((*interval)[1]).epsilon(1e-8));
  REQUIRE_THAT(factor_text(fitted), Catch::Contains("No measured runs tell whether the factor") &&
                                        Catch::Contains("With the factor, `simulate` gives "));
}

TEST_CASE("a measurement faster than the accelerators' peak is refused", "[fit]") {
  RunConfig const run = load_run_config(std::string{paper} + "22b-present.yaml", {});
  Simulation const simulation = simulate(make_plan(as_settled(run.training)), run.system);
  // All ranks at 312 TFLOP/s (NVIDIA A100 data sheet), without half of attention's 12 s^2 h FLOPs
  // per layer and sequence (Korthikanti et al. 2022, appendix A).
  ModelConfig const& model = run.training.model;
  auto const tokens = static_cast<double>(run.training.batch.global * model.sequence);
  double const masked =
      6.0 * tokens * static_cast<double>(model.layers * model.sequence * model.hidden);
  double const least = (simulation.model_flops - masked) / (8 * 312e12);
  REQUIRE_NOTHROW(fit_factor(run, Seconds{1.01 * least}, "r.yaml"));
  REQUIRE_THROWS_WITH(fit_factor(run, Seconds{0.99 * least}, "r.yaml"),
                      Catch::Contains("--measured: found '") && Catch::Contains("at their peak"));
}

TEST_CASE("a measurement a thousand times off is refused with what is predicted", "[fit]") {
  RunConfig const run = load_run_config(std::string{paper} + "22b-present.yaml", {});
  REQUIRE_THROWS_WITH(
      fit_factor(run, Seconds{12900}, "r.yaml"),
      Catch::Contains("--measured: found '12900 s'") && Catch::Contains("is predicted (1.09 s)"));
}

}  // namespace stagecraft::stack_factor_test
