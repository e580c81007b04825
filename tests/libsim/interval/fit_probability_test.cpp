#include "libsim/interval/fit_probability.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "libsim/config/problem.hpp"

namespace stagecraft::fit_probability_test {
namespace {

std::vector<MemoryRegime> regimes() {
  return read_memory_regimes(R"(
reserved:
  - {software: w, pipelined: false, runs: 40, bias: 0, spread: 0.02}
  - {software: w, pipelined: true, runs: 90, bias: 0.05, spread: 0.1}
)",
                             "r.yaml");
}

}  // namespace

TEST_CASE("a run has the regime of its software, by whether it has several stages", "[interval]") {
  auto const known = regimes();
  TrainingConfig config;
  System system;
  system.software.name = "w";
  REQUIRE(memory_regime_of(config, system, known)->runs == 40);
  config.parallel.pipeline = 2;
  REQUIRE(memory_regime_of(config, system, known)->runs == 90);
  system.software.name = "x";
  REQUIRE(memory_regime_of(config, system, known) == std::nullopt);
  REQUIRE(read_memory_regimes("regimes: []", "r.yaml").empty());
}

TEST_CASE("how sure a rank fits is the normal distribution of what is left", "[interval]") {
  MemoryRegime const regime{"w", true, 90, 0.05, 0.1};
  constexpr std::int64_t reserved = 10'000'000'000;
  // Quantiles of the standard normal distribution: 0 and 1.2816 (90 %), 2.3263 (99 %) deviations
  // beyond the bias of e^0.05.
  REQUIRE(fit_probability(reserved, 10'512'710'964, regime) == Approx(0.5).epsilon(1e-6));
  REQUIRE(fit_probability(reserved, 11'950'440'000, regime) == Approx(0.9).epsilon(1e-4));
  REQUIRE(fit_probability(reserved, 13'266'250'000, regime) == Approx(0.99).epsilon(1e-4));
  REQUIRE(fit_probability(reserved, 0, regime) == 0);
  REQUIRE(fit_probability(reserved, -1, regime) == 0);
}

TEST_CASE("regimes of memory that make no sense are refused", "[interval]") {
  REQUIRE_THROWS_WITH(
      read_memory_regimes("reserved: [{software: w, pipelined: no, runs: 4, bias: 0, spread: 0}]",
                          "r.yaml"),
      Catch::Contains("reserved[0].spread: found '0'; accepted: a number from 0.0001 to 10"));
}

}  // namespace stagecraft::fit_probability_test
