#include "libsim/units/units.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::units_test {

TEST_CASE("a duration is rounded to the nearest picosecond, once") {
  REQUIRE(to_sim_time(1.4e-12).count() == 1);
  REQUIRE(to_sim_time(1.6e-12).count() == 2);
  REQUIRE(to_sim_time(1.42).count() == 1'420'000'000'000);
}

TEST_CASE("300 bytes at 300 GB/s take one nanosecond") {
  REQUIRE((Bytes{300} / BytesPerSecond{300e9}).value == Approx(1e-9));
}

}  // namespace stagecraft::units_test
