#include "libsim/interval/time_interval.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

namespace stagecraft {
namespace {

std::vector<ResidualRegime> regimes() {
  return read_regimes(R"(
regimes:
  - {system: s, software: w, units: 4, bias: 0.01, scale: 2, difference: 0.05, coverage: 0.8}
  - {accelerator: A100, units: 4, bias: 0, scale: 3, difference: 0.1, coverage: 0.8}
  - {units: 6, bias: 0, scale: 4, difference: 0.1, coverage: 0.8}
)",
                      "r.yaml");
}

System system_of(std::string const& name, std::string const& software, std::string const& gpu) {
  System system;
  system.name = name;
  system.software.name = software;
  system.accelerator.name = gpu;
  return system;
}

TrainingConfig config_in(Precision precision) {
  TrainingConfig config;
  config.model.precision = precision;
  return config;
}

}  // namespace

TEST_CASE("a run has the narrowest regime that it belongs to, and none without measurements",
          "[interval]") {
  auto const known = regimes();
  TrainingConfig const config = config_in(Precision::bf16);
  auto const index = [&](System const& system) -> int {
    ResidualRegime const* const regime = regime_of(config, system, known);
    return regime == nullptr ? -1 : static_cast<int>(regime - known.data());
  };
  REQUIRE(index(system_of("s", "w", "NVIDIA A100")) == 0);
  REQUIRE(index(system_of("s", "other", "NVIDIA A100")) == 1);
  REQUIRE(index(system_of("t", "w", "NVIDIA A100")) == 1);
  REQUIRE(index(system_of("t", "w", "NVIDIA H100")) == 2);
  REQUIRE(index(system_of("t", "w", "AMD MI300X")) == -1);
  System const a100 = system_of("s", "w", "NVIDIA A100");
  REQUIRE(regime_of(config_in(Precision::fp32), a100, known) == nullptr);
}

TEST_CASE("an interval is bias and scale times the error, in the logarithm", "[interval]") {
  System const other = system_of("t", "w", "AMD MI300X");
  TimeInterval const none = time_interval(10, 0.03, config_in(Precision::bf16), other);
  REQUIRE_FALSE(none.seconds);
  REQUIRE_THAT(none.reason, Catch::Contains("AMD MI300X"));
  // Of the regimes that come along: low and high are T exp(bias -+ scale x error).
  System const a100 = system_of("t", "w", "NVIDIA A100");
  TimeInterval const wide = time_interval(10, 0.03, config_in(Precision::bf16), a100);
  REQUIRE(wide.seconds);
  auto const [low, high] = *wide.seconds;
  REQUIRE(std::log(high / low) == Approx(2 * wide.regime->scale * 0.03));
  REQUIRE(std::log(high * low / 100) == Approx(2 * wide.regime->bias).margin(1e-9));
}

TEST_CASE("no run with experts has been measured, so their times have no interval", "[interval]") {
  System const a100 = system_of("t", "w", "NVIDIA A100");
  TrainingConfig config = config_in(Precision::bf16);
  config.model.experts.emplace();
  TimeInterval const none = time_interval(10, 0.03, config, a100);
  REQUIRE_FALSE(none.seconds);
  REQUIRE(none.reason == "no measured runs of mixtures of experts");
}

TEST_CASE("of two plans the faster one is surer the more they differ", "[interval]") {
  ResidualRegime const regime = regimes().front();  // residuals differ by 5 %
  REQUIRE(probability_faster(10, 10, &regime) == Approx(0.5));
  // The normal distribution below 1 and 0.8416 standard deviations.
  REQUIRE(probability_faster(10, 10 * std::exp(0.05), &regime) == Approx(0.84134).epsilon(1e-4));
  REQUIRE(probability_faster(10, 10 * std::exp(0.05 * 0.8416), &regime) ==
          Approx(0.8).epsilon(1e-4));
  REQUIRE(probability_faster(10, 20, nullptr) == 0.5);
}

TEST_CASE("the regimes that come along have at least four units and positive widths",
          "[interval]") {
  REQUIRE(residual_regimes().size() >= 3);
  for (ResidualRegime const& regime : residual_regimes()) {
    REQUIRE(regime.units >= fewest_units);
    REQUIRE(regime.scale > 0);
    REQUIRE(regime.difference > 0);
  }
  REQUIRE_THROWS_WITH(read_regimes("regimes: [{units: 3}]", "r.yaml"),
                      Catch::Contains("units: found '3'"));
}

}  // namespace stagecraft
