#include "libsim/config/section_reader.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "libsim/config/section_writer.hpp"

namespace stagecraft::section_reader_test {
namespace {

struct Sample {
  int count = 3;
  double rate = 0.5;
  bool is_on = true;
  std::string name = "none";
  Bytes size{1024};
};

template <typename Visitor, typename AnySample>
void visit_fields(Visitor& visitor, AnySample& sample) {
  visitor.value("count", sample.count, Between{1, 10});
  visitor.value("rate", sample.rate, Between{0, 1});
  visitor.value("is_on", sample.is_on);
  visitor.value("name", sample.name, Need::required);
  visitor.value("size", sample.size);
}

Sample read(std::string const& text) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "x.yaml", diagnostics);
  Sample sample;
  SectionReader reader{ConfigNode{*root, "", diagnostics}.child("sample")};
  visit_fields(reader, sample);
  reader.finish();
  diagnostics.throw_if_any();
  return sample;
}

TEST_CASE("keys left out keep the defaults of the struct", "[config]") {
  Sample const sample = read("sample: {name: x, count: 4}");
  REQUIRE(sample.count == 4);
  REQUIRE(sample.rate == 0.5);
  REQUIRE(sample.is_on);
  REQUIRE(sample.size == Bytes{1024});
}

TEST_CASE("a required key left out, wrong types and unknown keys are reported together",
          "[config]") {
  REQUIRE_THROWS_WITH(
      read("sample:\n  cuont: 4\n  rate: 2\n  other: 1\n"),
      "x.yaml:3:9: sample.rate: found '2'; accepted: a number from 0 to below 1\n"
      "x.yaml:2:3: sample.name: missing; accepted: text\n"
      "x.yaml:2:3: sample.cuont: found an unknown key; accepted: count, rate, is_on, name, size; "
      "did "
      "you mean 'count'?\n"
      "x.yaml:4:3: sample.other: found an unknown key; accepted: count, rate, is_on, name, size");
}

TEST_CASE("a misspelt key is unsound under its right name, so that its default sets off no checks",
          "[config]") {
  Diagnostics diagnostics;
  auto const root = parse_yaml("{cuont: 4}", "x.yaml", diagnostics);
  Sample sample;
  SectionReader reader{ConfigNode{*root, "", diagnostics}};
  visit_fields(reader, sample);
  reader.finish();
  REQUIRE_FALSE(diagnostics.is_sound("count"));
  REQUIRE(diagnostics.is_sound("rate"));
}

TEST_CASE("a section that is no map is one problem", "[config]") {
  REQUIRE_THROWS_WITH(read("sample: 3"),
                      "x.yaml:1:9: sample: found '3'; accepted: a map with keys of these: count, "
                      "rate, is_on, name, size");
  REQUIRE_THROWS_WITH(read("sample:"), Catch::Contains("sample: missing; accepted: a map"));
}

TEST_CASE("what is written has every key, in the order in which it is read", "[config]") {
  SectionWriter writer;
  Sample const sample = read("sample: {name: x}");
  visit_fields(writer, sample);
  REQUIRE(writer.map().dump() ==
          R"({"count":3,"rate":0.5,"is_on":true,"name":"x","size":"1 KiB"})");
}

}  // namespace
}  // namespace stagecraft::section_reader_test
