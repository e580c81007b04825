#include <catch2/catch.hpp>

#include "libsim/fit/fit_data.hpp"

namespace stagecraft::fold_test {

TEST_CASE("the fold of a group follows from the FNV-1a hash of its name alone", "[fit]") {
  // The offset basis and the hashes of "a" and "foobar", RFC 9923, appendix C:
  // cbf29ce484222325, af63dc4c8601ec8c, 85944171f73967e8; the upper half modulo 5.
  REQUIRE(fold_of("") == 0xcbf29ce4U % 5);
  REQUIRE(fold_of("a") == 0xaf63dc4cU % 5);
  REQUIRE(fold_of("foobar") == 0x85944171U % 5);
}

}  // namespace stagecraft::fold_test
