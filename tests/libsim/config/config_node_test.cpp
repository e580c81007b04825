#include "libsim/config/config_node.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

namespace stagecraft::config_node_test {
namespace {

/// What reading the key `k` of a document reports.
std::string report_of(std::string const& text, std::function<void(ConfigNode const&)> const& read) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "x.yaml", diagnostics);
  REQUIRE(root);
  read(ConfigNode{*root, "", diagnostics}.child("k"));
  try {
    diagnostics.throw_if_any();
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "";
}

std::string integer_report(std::string const& value) {
  return report_of("k: " + value, [](ConfigNode const& node) { node.integer({1, 8}); });
}

TEST_CASE("a whole number is digits within its range and nothing else", "[config]") {
  REQUIRE(integer_report("8").empty());
  std::string const value = GENERATE("0", "9", "-1", "1.0", "1.5e0", "0x1", "010", "1_0", "+1",
                                     "99999999999999999999", "nan", "eight");
  CAPTURE(value);
  REQUIRE(integer_report(value) ==
          "x.yaml:1:4: k: found '" + value + "'; accepted: a whole number from 1 to 8");
}

TEST_CASE("a whole number may be a count as people write it", "[config]") {
  auto const read = [](std::string const& value) {
    std::int64_t number = 0;
    report_of("k: " + value, [&](ConfigNode const& node) {
      number = node.integer({-1'000'000, 1'000'000'000'000'000}).value_or(0);
    });
    return number;
  };
  REQUIRE(read("4k") == 4000);
  REQUIRE(read("1.5M") == 1'500'000);
  REQUIRE(read("3B") == 3'000'000'000);
  REQUIRE(read("15T") == 15'000'000'000'000);
  REQUIRE(read("-4k") == -4000);
  REQUIRE(integer_report("4k") ==
          "x.yaml:1:4: k: found '4k'; accepted: a whole number from 1 to 8");
}

TEST_CASE("what is no scalar is named by what it is", "[config]") {
  REQUIRE(integer_report("[1]") ==
          "x.yaml:1:4: k: found a list; accepted: a whole number from 1 to 8");
  REQUIRE(integer_report("{a: 1}") ==
          "x.yaml:1:4: k: found a map; accepted: a whole number from 1 to 8");
  REQUIRE(integer_report("'8'") ==
          "x.yaml:1:4: k: found the text '8'; accepted: a whole number from 1 to 8");
  REQUIRE(integer_report("null").find("k: missing; accepted: a whole number from 1 to 8") !=
          std::string::npos);
}

TEST_CASE("a real number is finite and within its range", "[config]") {
  auto const report = [](std::string const& value) {
    return report_of("k: " + value, [](ConfigNode const& node) { node.number({0, 1, false}); });
  };
  REQUIRE(report("0.1").empty());
  REQUIRE(report("1e-3").empty());
  std::string const value =
      GENERATE("1", "-0.1", ".nan", ".inf", "inf", "nan", "0.1.2", "1e999", "0x1p-1", "half");
  CAPTURE(value);
  REQUIRE(report(value) ==
          "x.yaml:1:4: k: found '" + value + "'; accepted: a number from 0 to below 1");
}

TEST_CASE("a bare number is no quantity, and the accepted units are named", "[config]") {
  REQUIRE(
      report_of("k: 80", [](ConfigNode const& node) { node.quantity<Bytes>(); }) ==
      "x.yaml:1:4: k: found '80'; accepted: a size with its unit, such as '80 GiB' (B, KB, MB, GB, "
      "TB, KiB, MiB, GiB, TiB)");
}

TEST_CASE("a truth value is true, false, yes, no, on or off", "[config]") {
  auto const report = [](std::string const& value) {
    return report_of("k: " + value, [](ConfigNode const& node) { node.boolean(); });
  };
  for (auto const* const value : {"true", "false", "yes", "no", "on", "off", "TRUE", "False"}) {
    REQUIRE(report(value).empty());
  }
  REQUIRE(report("1") == "x.yaml:1:4: k: found '1'; accepted: true or false");
  REQUIRE(report("'true'") == "x.yaml:1:4: k: found the text 'true'; accepted: true or false");
}

TEST_CASE("a key that is left out is reported where its section stands", "[config]") {
  Diagnostics diagnostics;
  auto const root = parse_yaml("a: 1\nsection:\n  x: 1\n", "x.yaml", diagnostics);
  ConfigNode{*root, "", diagnostics}.child("section").child("k").integer({1, 8});
  REQUIRE_THROWS_WITH(diagnostics.throw_if_any(),
                      "x.yaml:3:3: section.k: missing; accepted: a whole number from 1 to 8");
}

TEST_CASE("control characters and long texts are made fit for a terminal", "[config]") {
  REQUIRE(printable("a\x1b[31m\nb") == "a\\x1b[31m\\nb");
  REQUIRE(printable(std::string(100, 'x')) == std::string(60, 'x') + "...");
  REQUIRE(printable(std::string(59, 'x') + "\xe2\x82\xac") == std::string(59, 'x') + "...");
}

TEST_CASE("a key is unsound with a problem at it, around it or below it", "[config]") {
  Diagnostics diagnostics;
  diagnostics.add({Place{}, "a.b", "x", "y"});
  REQUIRE_FALSE(diagnostics.is_sound("a.b"));
  REQUIRE_FALSE(diagnostics.is_sound("a.b.c"));
  REQUIRE_FALSE(diagnostics.is_sound("a.b[1]"));
  REQUIRE_FALSE(diagnostics.is_sound("a"));
  REQUIRE(diagnostics.is_sound("a.bc"));
  REQUIRE(diagnostics.is_sound("b"));
}

}  // namespace
}  // namespace stagecraft::config_node_test
