#include "libsim/validation/ranking.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::ranking_test {

TEST_CASE("equal values have the average of their ranks", "[validation]") {
  REQUIRE(average_ranks({7, 3, 7, 1}) == std::vector<double>{3.5, 2, 3.5, 1});
}

TEST_CASE("Spearman's correlation with a tie is what a hand computes", "[validation]") {
  // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: sum of products 4.5, of squares 4.5 and 5.
  REQUIRE(rank_correlation({{1, 2, 2, 4}, {10, 20, 30, 40}}) == Approx(0.9486832981));
}

TEST_CASE(
    "Spearman's correlation is 1 for the same order, -1 for the reverse, and none without any",
    "[validation]") {
  REQUIRE(rank_correlation({{1, 2, 30}, {4, 5, 6}}) == Approx(1));
  REQUIRE(rank_correlation({{3, 2, 1}, {4, 5, 6}}) == Approx(-1));
  REQUIRE_FALSE(rank_correlation({{2, 2, 2}, {4, 5, 6}}));
  REQUIRE_FALSE(rank_correlation({{1, 2, 3}, {5, 5, 5}}));
}

TEST_CASE("regret is what the run predicted fastest takes beyond the fastest measured one",
          "[validation]") {
  REQUIRE(regret({{3, 1, 2}, {2.0, 2.5, 2.2}}) == Approx(0.25));
  REQUIRE(regret({{1, 3, 2}, {2.0, 2.5, 2.2}}) == 0);
  // Of equal predictions the first counts.
  REQUIRE(regret({{1, 1, 2}, {2.2, 2.0, 2.5}}) == Approx(0.1));
}

}  // namespace stagecraft::ranking_test
