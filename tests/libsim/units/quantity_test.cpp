#include "libsim/units/quantity.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <string>

namespace stagecraft::quantity_test {
namespace {

TEST_CASE("GB is 10^9 bytes and GiB is 2^30", "[units]") {
  REQUIRE(parse_quantity<Bytes>("80 GB") == Bytes{80'000'000'000});
  REQUIRE(parse_quantity<Bytes>("80 GiB") == Bytes{std::int64_t{80} << 30});
  REQUIRE(parse_quantity<Bytes>("1.5KiB") == Bytes{1536});
  REQUIRE(parse_quantity<Bytes>("80G") == Bytes{80'000'000'000});
  REQUIRE(parse_quantity<Bytes>("80 Gi") == parse_quantity<Bytes>("80 GiB"));
  REQUIRE(parse_quantity<Bytes>("4k") == parse_quantity<Bytes>("4K"));
  REQUIRE(parse_quantity<Bytes>("1M") == Bytes{1'000'000});
  REQUIRE(parse_quantity<Bytes>("4194303 TiB") == Bytes{std::int64_t{4194303} << 40});
}

TEST_CASE("200 Gbit/s are 25 GB/s", "[units]") {
  REQUIRE(parse_quantity<BytesPerSecond>("200 Gbit/s") == BytesPerSecond{25e9});
  REQUIRE(parse_quantity<BytesPerSecond>("1 GiB/s") == BytesPerSecond{1073741824.0});
}

TEST_CASE("a decimal quantity is the double nearest to what is written", "[units]") {
  REQUIRE(parse_quantity<Seconds>("92.8 us") == Seconds{92.8e-6});
  REQUIRE(parse_quantity<Seconds>("0.1 ns") == Seconds{0.1e-9});
  REQUIRE(parse_quantity<FlopsPerSecond>("19.5 TFLOP/s") == FlopsPerSecond{19.5e12});
  REQUIRE(parse_quantity<FlopsPerSecond>("1.2e3 GFLOP/s") == FlopsPerSecond{1.2e12});
}

TEST_CASE("a bare number, a foreign unit, a sign or no number is no quantity", "[units]") {
  auto const* const text =
      GENERATE("80", "", "GiB", "80 gb", "80 GB/s", "-1 GiB", "+1 GiB", "1.2.3 GB", "nan GB",
               "inf GB", ". GB", "1e999 GB", "8388608 TiB", "1 G iB", "0x10 B", "1e GB");
  CAPTURE(text);
  REQUIRE_FALSE(parse_quantity<Bytes>(text));
}

TEST_CASE("accepted_quantity names every unit of its kind", "[units]") {
  for (auto const* const unit : {"B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"}) {
    CAPTURE(unit);
    REQUIRE(std::string{accepted_quantity<Bytes>()}.find(unit) != std::string::npos);
    REQUIRE(parse_quantity<Bytes>(std::string{"1 "} + unit));
  }
  for (auto const* const unit : {"ps", "ns", "us", "ms", "s"}) {
    REQUIRE(std::string{accepted_quantity<Seconds>()}.find(unit) != std::string::npos);
    REQUIRE(parse_quantity<Seconds>(std::string{"1 "} + unit));
  }
}

TEST_CASE("exact text is the shortest that means the same size", "[units]") {
  REQUIRE(exact_text(Bytes{std::int64_t{2} << 30}) == "2 GiB");
  REQUIRE(exact_text(Bytes{80'000'000'000}) == "80 GB");
  REQUIRE(exact_text(Bytes{1537}) == "1537 B");
  REQUIRE(exact_text(Bytes{}) == "0 B");
  REQUIRE(exact_text(BytesPerSecond{2039e9}) == "2.039 TB/s");
  REQUIRE(exact_text(FlopsPerSecond{312e12}) == "312 TFLOP/s");
  REQUIRE(exact_text(Seconds{92.8e-6}) == "92.8 us");
  REQUIRE(exact_text(Seconds{0}) == "0 s");
}

TEST_CASE("any quantity survives its exact text unchanged", "[units]") {
  std::mt19937_64 random{7};
  for (int i = 0; i < 20'000; ++i) {
    Bytes const size{static_cast<std::int64_t>(random() >> (2 + random() % 62))};
    CAPTURE(size.count(), exact_text(size));
    REQUIRE(parse_quantity<Bytes>(exact_text(size)) == size);
    double const value =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 130);
    CAPTURE(value, exact_text(Seconds{value}));
    REQUIRE(parse_quantity<Seconds>(exact_text(Seconds{value})) == Seconds{value});
    REQUIRE(parse_quantity<BytesPerSecond>(exact_text(BytesPerSecond{value})) ==
            BytesPerSecond{value});
    REQUIRE(parse_quantity<FlopsPerSecond>(exact_text(FlopsPerSecond{value})) ==
            FlopsPerSecond{value});
  }
}

TEST_CASE("a count is digits, or a decimal number of thousands and more", "[units]") {
  REQUIRE(parse_count("0") == 0);
  REQUIRE(parse_count("4096") == 4096);
  REQUIRE(parse_count("4k") == 4000);
  REQUIRE(parse_count("4K") == 4000);
  REQUIRE(parse_count("2G") == 2'000'000'000);
  REQUIRE(parse_count("4Ki") == 4096);
  REQUIRE(parse_count("8388607Ti") == 8'388'607 * (std::int64_t{1} << 40));
  REQUIRE_FALSE(parse_count("8388608Ti").has_value());
  REQUIRE(parse_count("1.25M") == 1'250'000);
  REQUIRE(parse_count("0.50k") == 500);
  REQUIRE(parse_count("3B") == 3'000'000'000);
  REQUIRE(parse_count("2e6") == 2'000'000);
  REQUIRE(parse_count("1.5e3") == 1500);
  REQUIRE(parse_count("9223372T") == 9'223'372'000'000'000'000);
  for (char const* const text : {"",         "k",
                                 ".5k",      "5.k",
                                 "1.0005k",  "4.0",
                                 "04",       "04k",
                                 "-1",       "+1",
                                 "4 k",      "4ki",
                                 "Ki",       "1.5Ki",
                                 "4kKi",     "4kk",
                                 "1.5e0",    "1e-3",
                                 "1e19",     "1e",
                                 "9223373T", "9223372036854775808"}) {
    CAPTURE(text);
    REQUIRE_FALSE(parse_count(text).has_value());
  }
}

TEST_CASE("readable text keeps three significant digits", "[units]") {
  REQUIRE(readable_text(Bytes{13'207'024'435}) == "12.3 GiB");
  REQUIRE(readable_text(Bytes{1000}) == "1000 B");
  REQUIRE(readable_text(Seconds{92.84e-6}) == "92.8 us");
  REQUIRE(readable_text(Seconds{37.83}) == "37.8 s");
  REQUIRE(readable_text(BytesPerSecond{25e9}) == "25.0 GB/s");
  REQUIRE(readable_text(FlopsPerSecond{312e12}) == "312 TFLOP/s");
}

TEST_CASE("other spellings of a unit mean the same", "[units]") {
  for (char const* const text : {"400 Gbps", "400 Gb/s", "400Gbit/s", "50 GB/s", "0.4 Tbps"}) {
    CAPTURE(text);
    REQUIRE(parse_quantity<BytesPerSecond>(text) == BytesPerSecond{50e9});
  }
  REQUIRE(parse_quantity<Seconds>("40 \u00b5s") == Seconds{40e-6});  // micro sign
  REQUIRE(parse_quantity<Seconds>("40 \u03bcs") == Seconds{40e-6});  // Greek mu
  REQUIRE(parse_quantity<FlopsPerSecond>("312 TFLOPS") == FlopsPerSecond{312e12});
  REQUIRE_FALSE(parse_quantity<BytesPerSecond>("400 gbps").has_value());
  REQUIRE_FALSE(parse_quantity<Bytes>("80 Gb").has_value());
}

}  // namespace
}  // namespace stagecraft::quantity_test
