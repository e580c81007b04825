#include "libsim/config/did_you_mean.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::did_you_mean_test {
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

TEST_CASE("large letters are small ones for the nearest word", "[config]") {
  REQUIRE(nearest_word("1F1B", {"gpipe", "1f1b"}) == "1f1b");
  REQUIRE(nearest_word("Full", {"none", "selective", "full"}) == "full");
}

TEST_CASE("names with the word between their dashes come before one that looks alike", "[config]") {
  std::vector<std::string> const systems{"azure-nd-h100", "dgx-h100", "h100-pcie", "h200", "l40s"};
  REQUIRE(did_you_mean("h100", systems) ==
          "; did you mean 'azure-nd-h100', 'dgx-h100' or 'h100-pcie'?");
  REQUIRE(did_you_mean("1F1B", {"1f1b_v", "1f1b", "1f1b_w"}) == "; did you mean '1f1b'?");
  REQUIRE(did_you_mean("H200", systems) == "; did you mean 'h200'?");
  REQUIRE(did_you_mean("l40", systems) == "; did you mean 'l40s'?");
  REQUIRE(did_you_mean("10", systems).empty());
  REQUIRE(did_you_mean("h100", std::vector<std::string>(11, "h100-x")) ==
          "; did you mean 'h100-x'?");
}

TEST_CASE("of a list in words only the words are candidates", "[config]") {
  REQUIRE(did_you_mean_of_list("Full", "none, selective, full, or a map such as {a: full}") ==
          "; did you mean 'full'?");
  REQUIRE(did_you_mean_of_list("zb", "gpipe, zb_h1, zb_h2") ==
          "; did you mean 'zb_h1' or 'zb_h2'?");
  REQUIRE(did_you_mean_of_list("2", "a size with its unit, such as '80 GiB' (B, KB)").empty());
  REQUIRE(did_you_mean_of_list("treu", "true or false").empty());
}

}  // namespace
}  // namespace stagecraft::did_you_mean_test
