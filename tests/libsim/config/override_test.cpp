#include "libsim/config/override.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace stagecraft::override_test {
namespace {

/// A document after an override.
YamlNode overridden(std::string const& document, std::string const& text) {
  Diagnostics diagnostics;
  auto root = parse_yaml(document, "x.yaml", diagnostics);
  apply_override(*root, text, OverrideRules{{{"schedule", "kind"}}, {}}, diagnostics);
  diagnostics.throw_if_any();
  return *root;
}

TEST_CASE("an override sets one key and leaves its neighbours", "[config]") {
  YamlNode const root = overridden("parallel: {tensor: 8, data: 2}", "parallel.tensor=4");
  REQUIRE(root.find("parallel")->find("tensor")->text == "4");
  REQUIRE(root.find("parallel")->find("data")->text == "2");
  REQUIRE(to_string(root.find("parallel")->find("tensor")->place) == "--set parallel.tensor=4");
}

TEST_CASE("an override's value is YAML, and all of it stands at the override", "[config]") {
  YamlNode const root = overridden("a: 1", "layout={first: 11, last: [1, 2]}");
  YamlNode const* const last = root.find("layout")->find("last");
  REQUIRE(last->items.size() == 2);
  REQUIRE(to_string(last->items[1].place) == "--set layout={first: 11, last: [1, 2]}");
}

TEST_CASE("an override makes the maps on its way", "[config]") {
  REQUIRE(overridden("a: 1", "b.c.d=2").find("b")->find("c")->find("d")->text == "2");
}

TEST_CASE("an override turns a section's word into its map", "[config]") {
  YamlNode const root = overridden("schedule: 1f1b", "schedule.p2p=overlapped");
  REQUIRE(root.find("schedule")->find("kind")->text == "1f1b");
  REQUIRE(to_string(root.find("schedule")->find("kind")->place) == "x.yaml:1:11");
}

TEST_CASE("an override of a part of a constant is of its value, and may add to it", "[config]") {
  std::string const document = "rates: {value: {2: 3 GB/s, 4: 5 GB/s}, source: us}";
  for (std::string const nodes : {"4", "8"}) {
    YamlNode const root = overridden(document, "rates." + nodes + "=1 GB/s");
    REQUIRE(root.find("rates")->find("value")->find(nodes)->text == "1 GB/s");
    REQUIRE(root.find("rates")->find("value")->find("2")->text == "3 GB/s");
  }
  REQUIRE(overridden(document, "rates.source=them").find("rates")->find("source")->text == "them");
  REQUIRE(overridden(document, "rates.spread=1").find("rates")->find("spread")->text == "1");
}

TEST_CASE("an override without a key, a value or a way to its key is refused", "[config]") {
  REQUIRE_THROWS_WITH(overridden("a: 1", "=3"), Catch::Contains("found '=3'; accepted: KEY=VALUE"));
  REQUIRE_THROWS_WITH(overridden("a: 1", "a..b=3"), Catch::Contains("accepted: KEY=VALUE"));
  REQUIRE_THROWS_WITH(overridden("a: 1", "a="),
                      "--set a=: a: missing; accepted: a value after '='");
  REQUIRE_THROWS_WITH(
      overridden("a: [1]", "a.b=3"),
      "--set a.b=3: a: found a list; accepted: a map, as the override sets a key below it");
  REQUIRE_THROWS_WITH(overridden("a: 1", "a=[1"),
                      Catch::Contains("--set a=[1: a: found a YAML syntax error"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a.";
  REQUIRE_THROWS_AS(overridden("a: 1", deep + "a=1"), ConfigError);
}

}  // namespace
}  // namespace stagecraft::override_test
