#include "libsim/report/text_table.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::text_table_test {
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

TEST_CASE("a size or a time alone has the unit in which it is not small", "[report]") {
  REQUIRE(size_text(std::int64_t{60} << 30) == "60.00 GiB");
  REQUIRE(size_text(-(std::int64_t{3} << 19)) == "-1.50 MiB");
  REQUIRE(time_text(std::chrono::milliseconds{13812}) == "13.812 s");
  REQUIRE(time_text(std::chrono::milliseconds{100}) == "0.100 s");
  REQUIRE(time_text(std::chrono::microseconds{99'500}) == "99.500 ms");
  REQUIRE(time_text(SimTime{1'250'000}) == "1.250 us");
}

TEST_CASE("parts of a time sum, as they are shown, to the whole as it is shown", "[report]") {
  TimeUnit const seconds = unit_for(std::chrono::seconds{1});
  using std::chrono::microseconds;
  // 0.4 ms three times are 1.2 ms; 0.6 ms three times 1.8 ms.
  REQUIRE(parts_in_unit(seconds, {microseconds{400}, microseconds{400}, microseconds{400}}) ==
          std::vector<std::string>{"0.001", "0.000", "0.000"});
  REQUIRE(parts_in_unit(seconds, {microseconds{600}, microseconds{600}, microseconds{600}}) ==
          std::vector<std::string>{"0.001", "0.001", "0.000"});
  REQUIRE(parts_in_unit(seconds, {microseconds{1200}, microseconds{2700}, microseconds{0}}) ==
          std::vector<std::string>{"0.001", "0.003", "0.000"});
}

}  // namespace
}  // namespace stagecraft::text_table_test
