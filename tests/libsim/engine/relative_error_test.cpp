#include "libsim/engine/relative_error.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace stagecraft::relative_error_test {
namespace {

TEST_CASE("each part of an iteration errs by what it is known to") {
  auto const error = [](double ErrorTerms::*part, bool is_network_measured = false) {
    ErrorTerms terms;
    terms.*part = 1;
    terms.is_network_measured = is_network_measured;
    return relative_error(terms);
  };
  // 2 % in common and 2.5 % of each of six shapes: sqrt(0.0004 + 0.000625 / 6).
  CHECK(error(&ErrorTerms::products) == Approx(0.0224537));
  CHECK(error(&ErrorTerms::kernels) == Approx(0.04));
  CHECK(error(&ErrorTerms::node) == Approx(0.05));
  CHECK(error(&ErrorTerms::network) == Approx(0.15));
  CHECK(error(&ErrorTerms::network, true) == Approx(0.05));
  CHECK(error(&ErrorTerms::host) == Approx(0.20));
  CHECK(relative_error({.host = 1, .is_host_fitted = true}) == Approx(0.05));
  // The standard deviation of what is uniform between 0 and 1: 1 / sqrt(12).
  CHECK(error(&ErrorTerms::hidden) == Approx(1 / std::sqrt(12)).epsilon(0.01));
}

TEST_CASE("parts of an iteration err independently of each other") {
  ErrorTerms terms;
  terms.node = 0.6;
  terms.kernels = 0.4;
  // sqrt(0.03^2 + 0.016^2)
  CHECK(relative_error(terms) == Approx(0.034));
  CHECK(relative_error(ErrorTerms{}) == 0);
}

}  // namespace
}  // namespace stagecraft::relative_error_test
