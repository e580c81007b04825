#include "libsim/config/did_you_mean.hpp"

#include <catch2/catch.hpp>

namespace stagecraft {
namespace {

std::vector<std::string> const keys{"tensor", "pipeline", "interleave", "data", "sequence"};

TEST_CASE("the nearest word is one slip of the fingers away", "[config]") {
  REQUIRE(nearest_word("tensro", keys) == "tensor");
  REQUIRE(nearest_word("pipelines", keys) == "pipeline");
  REQUIRE(nearest_word("interleaf", keys) == "interleave");
  REQUIRE(nearest_word("interleaving", keys) == "interleave");
  REQUIRE(nearest_word("date", keys) == "data");
  REQUIRE(nearest_word("selene", {"selene-a100", "h200"}) == "selene-a100");
  REQUIRE(nearest_word("aws-p4", {"aws-p4d-2022", "aws-p4de-2022"}).empty());
  REQUIRE(nearest_word("se", {"selene-a100", "h200"}).empty());
}

TEST_CASE("a word far from all has no nearest", "[config]") {
  REQUIRE(nearest_word("expert", keys).empty());
  REQUIRE(nearest_word("", keys).empty());
  REQUIRE(nearest_word(std::string(10'000, 'x'), keys).empty());
}

}  // namespace
}  // namespace stagecraft
