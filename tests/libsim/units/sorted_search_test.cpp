#include "libsim/units/sorted_search.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace stagecraft::sorted_search_test {
namespace {

TEST_CASE("the first number above a value is the one that the standard library finds", "[units]") {
  std::vector<std::int64_t> sorted;
  for (std::int64_t i = 0; i <= 9; ++i) {
    for (std::int64_t value = -1; value <= 20; ++value) {
      auto const wanted = std::upper_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
      REQUIRE(first_above(sorted.data(), i, value) == wanted);
    }
    sorted.push_back(i / 2 * 3);  // pairs are equal
  }
}

}  // namespace
}  // namespace stagecraft::sorted_search_test
