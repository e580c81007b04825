#include "libsim/units/parse_number.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "libsim/units/split_text.hpp"

namespace stagecraft::parse_number_test {
namespace {

TEST_CASE("a number is all of a text, without spaces and a plus sign", "[units]") {
  REQUIRE(parse_number<int>("-12") == -12);
  REQUIRE(parse_number<double>("2.5e-3") == 0.0025);
  for (std::string const text : {"", " 1", "1 ", "+1", "1,", "0x10", "one", "1.5"}) {
    INFO(text);
    REQUIRE_FALSE(parse_number<int>(text));
  }
  REQUIRE_FALSE(parse_number<double>("1.5 GB"));
}

TEST_CASE("a number that its type cannot hold is not parsed", "[units]") {
  REQUIRE(parse_number<std::int64_t>("9223372036854775807") == INT64_MAX);
  REQUIRE_FALSE(parse_number<std::int64_t>("9223372036854775808"));
  REQUIRE_FALSE(parse_number<int>("2147483648"));
  REQUIRE_FALSE(parse_number<double>("1e400"));
}

TEST_CASE("infinity and not-a-number are not numbers that are parsed", "[units]") {
  for (std::string const text : {"inf", "-inf", "infinity", "INF", "nan", "NaN", "nan(1)"}) {
    INFO(text);
    REQUIRE_FALSE(parse_number<double>(text));
  }
}

TEST_CASE("a text has one part more than separators, and parts may be empty", "[units]") {
  using Parts = std::vector<std::string_view>;
  REQUIRE(split_text("", ",") == Parts{""});
  REQUIRE(split_text("a", ",") == Parts{"a"});
  REQUIRE(split_text(",a,,b,", ",") == Parts{"", "a", "", "b", ""});
  REQUIRE(split_text("none, selective,full", ", ") == Parts{"none", "selective,full"});
}

}  // namespace
}  // namespace stagecraft::parse_number_test
