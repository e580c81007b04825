#include "libsim/config/yaml_text.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft::yaml_text_test {
namespace {

TEST_CASE("maps go one key a line, small ones below the first level in braces", "[config]") {
  auto const json = nlohmann::ordered_json::parse(
      R"({"model": {"layers": 96, "dropout": 0.1}, "system": {"memory": {"value": "80 GiB", "fitted": false}},
          "layout": [3, 4], "empty": {}})");
  REQUIRE(
      yaml_text(json) ==
      "model:\n  layers: 96\n  dropout: 0.1\nsystem:\n  memory: {value: 80 GiB, fitted: false}\n"
      "layout: [3, 4]\nempty: {}\n");
}

TEST_CASE("any text reads back as the same text", "[config]") {
  std::string const text =
      GENERATE("", " ", "a", "a b", "a ", " a", "no", "true", "null", "~", "8", "0.5", "1e3",
               "80 GiB", "8 ", "- a", "a: b", "a #b", "a, b", "{a}", "[a]", "'a'", "\"a\"", "a\nb",
               "\t", "\\", "%a", "@a", "!a", "&a", "*a", "|", ">", "?", "\x01\x7f",
               "\xe2\x80\xa8\xef\xbb\xbf", "\xf0\x9f\x98\x80", "---", "...");
  CAPTURE(text);
  Diagnostics diagnostics;
  auto const root =
      parse_yaml(yaml_text({{"k", text}, {"m", {{"n", text}}}}), "x.yaml", diagnostics);
  REQUIRE_NOTHROW(diagnostics.throw_if_any());
  REQUIRE(root->find("k")->kind == YamlNode::Kind::scalar);
  REQUIRE(root->find("k")->text == text);
  REQUIRE(root->find("m")->find("n")->text == text);
}

}  // namespace
}  // namespace stagecraft::yaml_text_test
