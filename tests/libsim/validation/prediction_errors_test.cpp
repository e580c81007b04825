#include "libsim/validation/prediction_errors.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::prediction_errors_test {

TEST_CASE("mean, median, p90, bias and spread of four ratios are what a hand computes",
          "[validation]") {
  // Errors 0, 0.1, 0.1, 0.4: p90 lies 0.7 of the way from the third to the fourth. The median of
  // the ratios is (1.0 + 1.1) / 2 = 1.05, from which they are 0.15, 0.05, 0.05 and 0.35 away.
  PredictionErrors const errors = prediction_errors({1.1, 0.9, 1.0, 1.4});
  REQUIRE(errors.mean == Approx(0.15));
  REQUIRE(errors.median == Approx(0.1));
  REQUIRE(errors.p90 == Approx(0.31));
  REQUIRE(errors.bias == Approx(0.05));
  REQUIRE(errors.spread == Approx(0.15));
}

TEST_CASE("a bias that all predictions share is no spread", "[validation]") {
  PredictionErrors const errors = prediction_errors({0.5, 0.5, 0.5});
  REQUIRE(errors.bias == Approx(-0.5));
  REQUIRE(errors.spread == Approx(0).margin(1e-15));
  REQUIRE(errors.mean == Approx(0.5));
}

TEST_CASE("quantiles of one value are the value, and those of two lie on the line between them",
          "[validation]") {
  REQUIRE(quantile({3}, 0.9) == 3);
  REQUIRE(quantile({4, 2}, 0) == 2);
  REQUIRE(quantile({4, 2}, 0.5) == 3);
  REQUIRE(quantile({4, 2}, 0.9) == Approx(3.8));
  REQUIRE(quantile({4, 2}, 1) == 4);
}

}  // namespace stagecraft::prediction_errors_test
