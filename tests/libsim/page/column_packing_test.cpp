#include "libsim/page/column_packing.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::column_packing_test {

TEST_CASE("base64 gives what RFC 4648 gives") {
  REQUIRE(base64("").empty());
  REQUIRE(base64("f") == "Zg==");
  REQUIRE(base64("fo") == "Zm8=");
  REQUIRE(base64("foo") == "Zm9v");
  REQUIRE(base64("foobar") == "Zm9vYmFy");
  REQUIRE(base64(std::string_view{"\xff\xfe\x00", 3}) == "//4A");
}

TEST_CASE("a frequent value takes a byte, another its zigzagged varint behind a zero") {
  // 300 zigzags to 600 = 4 * 128 + 88; -1 to 1. Frequent: 300 alone.
  REQUIRE(pack_column({300, -1, 300}) == std::string{"\x01\xd8\x04\x01\x00\x01\x01", 7});
  REQUIRE(pack_column({}) == std::string{"\0", 1});
}

TEST_CASE(
    "of values equally frequent the smaller comes first, so that equal columns give equal bytes") {
  REQUIRE(pack_column({5, 5, -5, -5}) == std::string{"\x02\x09\x0a\x02\x02\x01\x01", 7});
}

TEST_CASE("the extremes of 64 bits survive packing in ten bytes") {
  std::string const packed = pack_column({INT64_MIN, INT64_MAX});
  REQUIRE(packed.size() == 1 + 2 * (1 + 10));
}

}  // namespace stagecraft::column_packing_test
