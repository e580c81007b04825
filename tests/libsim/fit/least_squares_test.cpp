#include "libsim/fit/least_squares.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace stagecraft::least_squares_test {
namespace {

/// A problem whose deviations are `constant - slopes x unknowns`.
LeastSquaresProblem linear(std::vector<double> const& constants,
                           std::vector<std::vector<double>> const& slopes) {
  std::size_t const unknowns = slopes.front().size();
  LeastSquaresProblem problem;
  problem.deviations = [=](std::vector<double> const& z) {
    std::vector<double> result = constants;
    for (std::size_t i = 0; i < result.size(); ++i) {
      for (std::size_t k = 0; k < unknowns; ++k) result[i] -= slopes[i][k] * z[k];
    }
    return result;
  };
  for (std::size_t i = 0; i < constants.size(); ++i) {
    problem.weights.push_back(1);
    problem.sources.push_back(i);
  }
  problem.least.assign(unknowns, -100);
  problem.most.assign(unknowns, 100);
  problem.steps.assign(unknowns, 0.01);
  return problem;
}

}  // namespace

TEST_CASE("one unknown of a linear problem is the mean that its prior draws to 0", "[fit]") {
  // By hand, noise 1: minimise ((1 - z)^2 + (0.4 - z)^2 + z^2) / 2, z = 1.4 / 3; curvature 3.
  LeastSquaresProblem problem = linear({1.0, 0.4}, {{1.0}, {1.0}});
  problem.noise = 1;
  LeastSquaresSolution const solution = solve(problem, {0});
  REQUIRE(solution.unknowns[0] == Approx(1.4 / 3).epsilon(1e-3));
  REQUIRE(solution.deviations[0] == Approx(1 - 1.4 / 3).epsilon(1e-3));
  REQUIRE(solution.standard_errors[0] == Approx(std::sqrt(1.0 / 3)).epsilon(1e-3));
  // A row of weight 2 counts as two: z = (2 x 1 + 0.4) / 4.
  problem.weights[0] = 2;
  REQUIRE(solve(problem, {0}).unknowns[0] == Approx(2.4 / 4).epsilon(1e-3));
  // A row of weight 0 is left out: z = 0.4 / 2.
  problem.weights[0] = 0;
  REQUIRE(solve(problem, {0}).unknowns[0] == Approx(0.2).epsilon(1e-3));
}

TEST_CASE("two unknowns of a linear problem solve its normal equations", "[fit]") {
  // By hand, noise 0.1: rows 0.1 - z0 and 0.05 - z1 and 0.12 - z0 - z1, curvature
  // [201 100; 100 201], right-hand side 100 x [0.22; 0.17].
  LeastSquaresProblem problem = linear({0.1, 0.05, 0.12}, {{1.0, 0.0}, {0.0, 1.0}, {1.0, 1.0}});
  problem.noise = 0.1;
  LeastSquaresSolution const solution = solve(problem, {0, 0});
  double const determinant = 201.0 * 201 - 100.0 * 100;
  REQUIRE(solution.unknowns[0] == Approx((201 * 22.0 - 100 * 17.0) / determinant).epsilon(1e-2));
  REQUIRE(solution.unknowns[1] == Approx((201 * 17.0 - 100 * 22.0) / determinant).epsilon(1e-2));
  REQUIRE(solution.correlations[0][1] == Approx(-100.0 / 201).epsilon(1e-3));
}

TEST_CASE("a row that is far off pulls with the force of one at 1.345 noises", "[fit]") {
  // Minimise (z - 0.1)^2 / 2 / 0.01 + z^2 / 2 - 1.345 z / 0.1: 101 z = 10 + 13.45.
  LeastSquaresProblem problem = linear({0.1, 5.0}, {{1.0}, {1.0}});
  problem.noise = 0.1;
  REQUIRE(solve(problem, {0}).unknowns[0] == Approx(23.45 / 101).epsilon(1e-2));
}

TEST_CASE("rows that err together say no more than one row", "[fit]") {
  // The mean of four rows at 0.2 and four at -0.2: the standard deviation of a mean of n values is
  // 0.2 / sqrt(n - 1), with n the rows if they are independent, and 2 if they are two sources.
  LeastSquaresProblem problem = linear({0.2, 0.2, 0.2, 0.2, -0.2, -0.2, -0.2, -0.2},
                                       {{1.0}, {1.0}, {1.0}, {1.0}, {1.0}, {1.0}, {1.0}, {1.0}});
  problem.noise = 0.2;
  REQUIRE(solve(problem, {0}).standard_errors[0] == Approx(0.2 / std::sqrt(7)).epsilon(0.03));
  problem.sources = {0, 0, 0, 0, 1, 1, 1, 1};
  REQUIRE(solve(problem, {0}).standard_errors[0] == Approx(0.2).epsilon(0.03));
}

TEST_CASE("an unknown stays within its bounds", "[fit]") {
  LeastSquaresProblem problem = linear({1.0, 1.0}, {{1.0}, {1.0}});
  problem.noise = 0.1;
  problem.most = {0.25};
  REQUIRE(solve(problem, {0}).unknowns[0] == 0.25);
}

TEST_CASE("the noise is the median distance from the median, as a normal distribution has it",
          "[fit]") {
  LeastSquaresProblem problem = linear({0.01, -0.02, 0.03}, {{0.0}, {0.0}, {0.0}});
  LeastSquaresSolution const solution = solve(problem, {0});
  REQUIRE(solution.noise == Approx(1.4826 * 0.02));
  REQUIRE(solution.unknowns[0] == 0);
  REQUIRE(solution.standard_errors[0] == Approx(1));  // the rows say nothing
}

}  // namespace stagecraft::least_squares_test
