#include "libsim/report/text_table.hpp"

#include <catch2/catch.hpp>

namespace stagecraft {
namespace {

TEST_CASE("tables of bytes take the largest unit of which they hold a tenth", "[report]") {
  REQUIRE(unit_for(std::int64_t{80} << 30).name == "GiB");
  REQUIRE(unit_for(std::int64_t{103} << 20).name == "GiB");
  REQUIRE(unit_for(std::int64_t{102} << 20).name == "MiB");
  REQUIRE(unit_for(std::int64_t{103} << 10).name == "MiB");
  REQUIRE(unit_for(std::int64_t{102} << 10).name == "KiB");
  REQUIRE(unit_for(0).name == "KiB");
  REQUIRE(in_unit(unit_for(std::int64_t{3} << 19), std::int64_t{3} << 19) == "1.50");
}

}  // namespace
}  // namespace stagecraft
