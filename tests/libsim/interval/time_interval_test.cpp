#include "libsim/interval/time_interval.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

namespace stagecraft::time_interval_test {
namespace {

std::vector<ResidualRegime> regimes() {
  return read_regimes(R"(
regimes:
  - {system: a100-4hdr, software: w, units: 4, bias: 0.01, scale: 2, difference: 0.05, coverage: 0.8}
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

/// The sequence length is one that was measured on A100 or H100 (configs/compared.yaml).
TrainingConfig config_in(Precision precision, std::int64_t sequence = 2048) {
  TrainingConfig config;
  config.model.precision = precision;
  config.model.sequence = sequence;
  return config;
}

}  // namespace

TEST_CASE("a run has the narrowest regime that it belongs to, and none without measurements",
          "[interval]") {
  auto const known = regimes();
  auto const index = [&](System const& system, TrainingConfig const& config) -> int {
    ResidualRegime const* const regime = regime_of(config, system, known).regime;
    return regime == nullptr ? -1 : static_cast<int>(regime - known.data());
  };
  TrainingConfig const config = config_in(Precision::bf16);
  REQUIRE(index(system_of("a100-4hdr", "w", "NVIDIA A100"), config) == 0);
  REQUIRE(index(system_of("a100-4hdr", "other", "NVIDIA A100"), config) == 1);
  REQUIRE(index(system_of("t", "w", "NVIDIA A100"), config) == 1);
  REQUIRE(index(system_of("t", "w", "NVIDIA H100"), config_in(Precision::bf16, 4096)) == 2);
  REQUIRE(index(system_of("t", "w", "AMD MI300X"), config) == -1);
  REQUIRE(index(system_of("a100-4hdr", "w", "NVIDIA A100"), config_in(Precision::fp32)) == -1);
}

TEST_CASE(
    "a run outside of what was measured on its machine has the interval of a wider regime, "
    "and outside of what was measured on its accelerator none",
    "[interval]") {
  // Runs on a100-4hdr had up to 512 GPUs (vTrain), those on other A100s up to 3360 (MT-NLG), and
  // sequences of 1024 and 2048.
  System const system = system_of("a100-4hdr", "megatron-deepspeed-2022", "NVIDIA A100");
  TrainingConfig config = config_in(Precision::fp16);
  auto const width = [](TimeInterval const& interval) {
    return std::log((*interval.seconds)[1] / (*interval.seconds)[0]);
  };
  config.parallel.data = 512;
  TimeInterval const inside = time_interval(10, 0.03, config, system);
  REQUIRE_THAT(inside.reason, Catch::Contains(" on a100-4hdr, kept out of the fit") &&
                                  !Catch::Contains("outside"));
  config.parallel.data = 1024;
  TimeInterval const wider = time_interval(10, 0.03, config, system);
  REQUIRE_THAT(wider.reason, Catch::Contains("in the mean; outside of what was measured: 1024 GPUs "
                                             "(measured on a100-4hdr: up to 512)"));
  REQUIRE(width(wider) > width(inside));
  config.model.sequence = 16384;
  TimeInterval const none = time_interval(10, 0.03, config, system);
  REQUIRE_FALSE(none.seconds);
  // 1,024 GPUs were measured on A100, only not on that cluster.
  REQUIRE(none.reason ==
          "outside of what was measured: model.sequence 16384 (measured on A100: 1024 to 2048)");
  // Plans of one model are still compared.
  REQUIRE(none.regime != nullptr);
  // Which way predictions erred on other machines with the accelerator is said all the same.
  System const elsewhere = system_of("hgx-a100-80", "megatron-core", "NVIDIA A100");
  REQUIRE(time_interval(10, 0.03, config, elsewhere).reason ==
          none.reason +
              "; 6 sources of measured runs on A100 took 6.2 % longer than predicted in "
              "the mean");
}

TEST_CASE("constants that somebody gives are not those of the machines that were measured",
          "[interval]") {
  System system = system_of("a100-4hdr", "megatron-deepspeed-2022", "NVIDIA A100");
  TrainingConfig const config = config_in(Precision::fp16);
  std::string const given = std::string{given_source} + "--set";
  REQUIRE_THAT(time_interval(10, 0.03, config, system).reason,
               Catch::Contains(" on a100-4hdr, kept out of the fit"));
  // Other clusters have other networks, but the same accelerator.
  system.network.bandwidth.source = given;
  TimeInterval const wider = time_interval(10, 0.03, config, system);
  REQUIRE(wider.seconds);
  REQUIRE_THAT(wider.reason, Catch::Contains("6 sources of measured runs on A100, which took 6.2 % "
                                             "longer than predicted in the mean; outside of what "
                                             "was measured: system.network.bandwidth (given in"));
  system.calibration.gemm_efficiency.source = given;
  TimeInterval const none = time_interval(10, 0.03, config, system);
  REQUIRE_FALSE(none.seconds);
  REQUIRE_THAT(none.reason,
               Catch::Contains("system.calibration.gemm_efficiency (given in --set)") &&
                   !Catch::Contains("network"));
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

TEST_CASE("experts were measured by fewer sources than an interval needs", "[interval]") {
  // Three: SimuMax, Megatron-Bridge and ModelZoo (experiments/validation/experts.md).
  System const a100 = system_of("t", "w", "NVIDIA A100");
  TrainingConfig config = config_in(Precision::bf16);
  config.model.experts.emplace();
  TimeInterval const none = time_interval(10, 0.03, config, a100);
  REQUIRE_FALSE(none.seconds);
  REQUIRE_THAT(none.reason, Catch::StartsWith(
                                "fewer than 4 sources of measured runs of mixtures of experts; the "
                                "median error of such runs in 16 bits is "));
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
    // What is not of one machine is less certain than what is.
    if (regime.system.empty()) {
      for (ResidualRegime const& narrow : residual_regimes()) {
        if (!narrow.system.empty()) REQUIRE(regime.scale > narrow.scale);
      }
    }
  }
  REQUIRE_THROWS_WITH(read_regimes("regimes: [{units: 3}]", "r.yaml"),
                      Catch::Contains("units: found '3'"));
}

}  // namespace stagecraft::time_interval_test
