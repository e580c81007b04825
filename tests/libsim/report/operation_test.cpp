#include "libsim/report/operation.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace stagecraft::operation_test {
namespace {

/// The goodput of a job that is played: useful seconds over all seconds.
double played_goodput(double between, double interval, double checkpoint, double restart) {
  std::mt19937_64 random{7};
  std::exponential_distribution<double> next{1 / between};
  double useful = 0;
  double all = 0;
  constexpr int intervals = 200000;
  for (int done = 0; done < intervals;) {
    // The distribution has no memory, so that each try draws anew.
    double const fails_after = next(random);
    if (fails_after >= interval + checkpoint) {
      all += interval + checkpoint;
      useful += interval;
      ++done;
      continue;
    }
    all += fails_after;
    // A restart that is interrupted starts again.
    for (double failure = next(random); failure < restart; failure = next(random)) all += failure;
    all += restart;
  }
  return useful / all;
}

}  // namespace

TEST_CASE("goodput is that of a job whose interruptions are played", "[report]") {
  auto const [gpus, checkpoint, restart] =
      GENERATE(table<int, double, double>({{16384, 60, 1200}, {16384, 5, 300}, {1024, 60, 1200}}));
  Goodput const goodput = goodput_of(gpus, 50700, Seconds{checkpoint}, Seconds{restart});
  REQUIRE(goodput.between_failures.value == Approx(50700.0 * 3600 / gpus));
  REQUIRE(goodput.share == Approx(played_goodput(goodput.between_failures.value,
                                                 goodput.interval.value, checkpoint, restart))
                               .epsilon(0.01));
}

TEST_CASE("no other checkpoint interval gives a noticeably better goodput", "[report]") {
  Goodput const best = goodput_of(16384, 50700, Seconds{60}, Seconds{1200});
  double const between = best.between_failures.value;
  for (double const factor : {0.5, 0.8, 1.25, 2.0}) {
    double const tau = factor * best.interval.value;
    double const share =
        tau / (between * std::exp(1200 / between) * std::expm1((tau + 60) / between));
    REQUIRE(share < best.share + 1e-4);
  }
}

TEST_CASE("money and energy of an iteration and of a training", "[report]") {
  OperatingRates rates;
  rates.price = 2.5;
  rates.watts = 800;
  rates.pue = 1.25;
  rates.tokens = 36e6;
  // 64 GPUs, 10 s and 1e5 tokens an iteration: 64 x 1000 W x 10 s, 64 x 2.5 / 360.
  OperatingFigures const figures = operating_figures(10, 1e4, 64, rates);
  REQUIRE(*figures.joules_per_iteration == Approx(640e3));
  REQUIRE(*figures.joules_per_token == Approx(6.4));
  REQUIRE(*figures.cost_per_iteration == Approx(64 * 2.5 / 360));
  REQUIRE(*figures.cost_per_day == Approx(64 * 2.5 * 24));
  // 1e12 tokens take 1e8 s.
  REQUIRE(figures.gpu_hours_per_trillion_tokens == Approx(64 * 1e8 / 3600));
  REQUIRE(*figures.cost_per_trillion_tokens == Approx(2.5 * 64 * 1e8 / 3600));
  // 36e6 tokens take an hour.
  REQUIRE(*figures.days == Approx(1.0 / 24));
  REQUIRE(*figures.cost == Approx(160));
  REQUIRE(*figures.joules == Approx(64 * 3.6e6));
  REQUIRE_FALSE(figures.goodput);
}

TEST_CASE("interruptions count in what a trillion tokens cost, not in GPU hours", "[report]") {
  OperatingRates rates;
  rates.price = 2;
  rates.tokens = 1e12;
  rates.hours_per_failure = 1000;
  OperatingFigures const figures = operating_figures(10, 1e4, 64, rates);
  REQUIRE(figures.goodput->share < 0.99);
  REQUIRE(figures.gpu_hours_per_trillion_tokens == Approx(64 * 1e8 / 3600));
  REQUIRE(*figures.cost_per_trillion_tokens == Approx(*figures.cost));
  REQUIRE(*figures.cost == Approx(2 * 64 * 1e8 / 3600 / figures.goodput->share));
}

TEST_CASE("rates that are given by system are those of the named systems alone", "[report]") {
  SystemRates rates;
  rates.common.watts = 700;
  rates.price = {{"dgx-h100", 2.5}, {"mine", 4}};
  REQUIRE(rates.of({"dgx-h100"}).price == 2.5);
  REQUIRE(rates.of(names_of_system("folder/mine.yaml", "my cluster")).price == 4);
  REQUIRE_FALSE(rates.of({"selene-a100"}).price);
  REQUIRE(rates.of({"selene-a100"}).watts == 700);
}

TEST_CASE("large amounts of money are read in thousands", "[report]") {
  REQUIRE(amount_text(13.957) == "13.96");
  REQUIRE(amount_text(999.5) == "999.50");
  REQUIRE(amount_text(1331193.35) == "1,331,193");
  REQUIRE(amount_text(20617.23) == "20,617");
}

TEST_CASE("what is not asked for is neither computed nor said", "[report]") {
  OperatingFigures const figures = operating_figures(10, 1e4, 64, {});
  REQUIRE(operating_text(figures, {}).empty());
  REQUIRE(to_json(figures, {}).at("cost").is_null());
}

}  // namespace stagecraft::operation_test
