#include "libsim/config/yaml_tree.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace stagecraft::yaml_tree_test {
namespace {

std::string problems_of(std::string const& text) {
  Diagnostics diagnostics;
  parse_yaml(text, "x.yaml", diagnostics);
  try {
    diagnostics.throw_if_any();
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("every node knows its line and column, counted from 1", "[config]") {
  Diagnostics diagnostics;
  auto const root =
      parse_yaml("# comment\nparallel:\n  tensor: 8\nlayout: [1, 22]\n", "x.yaml", diagnostics);
  REQUIRE(root);
  REQUIRE(to_string(root->find("parallel")->find("tensor")->place) == "x.yaml:3:11");
  REQUIRE(to_string(root->find("parallel")->keys[0].place) == "x.yaml:3:3");
  REQUIRE(to_string(root->find("layout")->items[1].place) == "x.yaml:4:13");
  REQUIRE(root->find("absent") == nullptr);
}

TEST_CASE("text in quotes or in a block is told from a plain scalar", "[config]") {
  Diagnostics diagnostics;
  auto const root = parse_yaml("a: 8\nb: '8'\nc: |\n  8\nd: ~\n", "x.yaml", diagnostics);
  REQUIRE_FALSE(root->find("a")->quoted);
  REQUIRE(root->find("b")->quoted);
  REQUIRE(root->find("c")->quoted);
  REQUIRE(root->find("d")->kind == YamlNode::Kind::null);
}

TEST_CASE("a key given twice is refused where it comes again", "[config]") {
  REQUIRE(
      problems_of("a: {tensor: 1, data: 2, tensor: 3}\n") ==
      "x.yaml:1:25: a.tensor: found the key a second time; accepted: each key once (it is also at "
      "x.yaml:1:5)");
}

TEST_CASE("tags are refused", "[config]") {
  REQUIRE(problems_of("a: !!int 1\n") ==
          "x.yaml:1:4: a: found the tag 'tag:yaml.org,2002:int'; accepted: values without tags");
}

TEST_CASE("an alias is a copy of what its anchor names", "[config]") {
  Diagnostics diagnostics;
  auto const root = parse_yaml("a: &x [1, 2]\nb: *x\nc: &y 3\nd: *y\n", "x.yaml", diagnostics);
  REQUIRE(diagnostics.problems().empty());
  REQUIRE(root->find("b")->items.at(1).text == "2");
  REQUIRE(root->find("d")->text == "3");
}

TEST_CASE("a merge adds the entries that a map does not have itself", "[config]") {
  // YAML's merge key: own entries win, and of several maps the first.
  Diagnostics diagnostics;
  auto const root =
      parse_yaml("a: &a {k: 1, l: 2}\nb: &b {k: 3, m: 4}\nc: {<<: *a, l: 5}\nd: {<<: [*b, *a]}\n",
                 "x.yaml", diagnostics);
  REQUIRE(diagnostics.problems().empty());
  YamlNode const& c = *root->find("c");
  REQUIRE(c.items.size() == 2);
  REQUIRE(c.find("k")->text == "1");
  REQUIRE(c.find("l")->text == "5");
  YamlNode const& d = *root->find("d");
  REQUIRE(d.find("k")->text == "3");
  REQUIRE(d.find("l")->text == "2");
  REQUIRE(d.find("m")->text == "4");
}

TEST_CASE("aliases that make no tree, or one without bounds, are refused", "[config]") {
  REQUIRE(
      problems_of("a: {<<: 3}\n") ==
      "x.yaml:1:9: a: found a merge ('<<') of a value that is not a map; accepted: an alias of a "
      "map, such as <<: *name");
  REQUIRE(
      problems_of("a: &x [1, *x]\n") ==
      "x.yaml:1:11: a[1]: found an alias inside the value that it stands for; accepted: an alias "
      "of an earlier value");
  // Ten to the seventh values in eight lines.
  std::string laughs = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (char c = 'b'; c < 'h'; ++c) {
    std::string const name{c};
    std::string const of = "*" + std::string{static_cast<char>(c - 1)};
    laughs += name + ": &" + name + " [" + of;
    for (int i = 0; i < 9; ++i) laughs += ", " + of;
    laughs += "]\n";
  }
  REQUIRE(problems_of(laughs).find("found aliases that stand for more than 100000 values") !=
          std::string::npos);
  std::string deep = "a: &a [1]\n";
  for (int i = 0; i < 40; ++i) {
    std::string const before = i == 0 ? "a" : "k" + std::to_string(i - 1);
    std::string const name = "k" + std::to_string(i);
    deep += name + ": &" + name + " [*" + before + "]\n";
  }
  REQUIRE(problems_of(deep).find("found more nesting") != std::string::npos);
}

TEST_CASE("a tab that indents is named as one", "[config]") {
  REQUIRE(problems_of("a:\n  b: 1\n\tc: 2\n") ==
          "x.yaml:3:1: found a tab in the indentation; accepted: spaces: YAML does not indent with "
          "tabs");
}

TEST_CASE("a file holds one document, and a map has text for keys", "[config]") {
  REQUIRE(problems_of("a: 1\n---\nb: 2\n") ==
          "x.yaml:2:1: found a second document; accepted: one YAML document a file");
  REQUIRE(problems_of("[1, 2]: 3\n") ==
          "x.yaml:1:1: found a key that is not text; accepted: keys such as 'layers'");
  REQUIRE(problems_of("") == "x.yaml:1:1: found an empty file; accepted: a YAML map");
  REQUIRE(problems_of("# nothing\n") == "x.yaml:1:1: found an empty file; accepted: a YAML map");
}

TEST_CASE("a syntax error of YAML has its place", "[config]") {
  REQUIRE(problems_of("a: 1\nb: [1, 2\n").find("x.yaml:3:1: found a YAML syntax error (") == 0);
  REQUIRE(problems_of("a: 1\n b: 2\n").find("x.yaml:2:3: found a YAML syntax error (") == 0);
  for (std::string const wrong :
       {"a: {b:[1]}\n", "a: {b:{c: 1}}\n", "a: {b: 1 c: 2}\n", "a: {b: 1\n"}) {
    CAPTURE(wrong);
    REQUIRE_THAT(problems_of(wrong),
                 Catch::Contains("a space after the colon of each key, a comma"));
  }
}

TEST_CASE("bytes that are no text are refused at their place", "[config]") {
  REQUIRE(problems_of("a: 1\nb: \xff\n") ==
          "x.yaml:2:4: found a byte 0xff, which is not UTF-8; accepted: text in UTF-8");
  REQUIRE(problems_of(std::string{"a: \0", 4}) ==
          "x.yaml:1:4: found a control character 0x00; accepted: text in UTF-8");
  REQUIRE(problems_of("\x89HDF\r\n") ==
          "x.yaml:1:1: found an HDF5 file (stagecraft report, export and compare take traces); "
          "accepted: text in UTF-8");
  // Overlong, surrogate, beyond Unicode, cut short (RFC 3629, section 3).
  std::string const bytes = GENERATE("\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82");
  REQUIRE(problems_of("a: " + bytes).find("x.yaml:1:4: found a byte 0x") == 0);
  REQUIRE(problems_of("a: \xe2\x82\xac \xf0\x9f\x98\x80\r\nb:\t1\r\n").empty());
}

TEST_CASE("nesting beyond 32 and files beyond 1 MiB are refused, quickly and without a crash",
          "[config]") {
  std::string const opening = GENERATE("[", "{", "{a: ", "- ", "? ", "a:\n  ", "[{");
  CAPTURE(opening);
  std::string text;
  while (text.size() + opening.size() <= largest_yaml_file) text += opening;
  REQUIRE_FALSE(problems_of(text).empty());
  REQUIRE(problems_of(text + text) ==
          "x.yaml: found more than 1 MiB; accepted: a configuration of at most 1 MiB");
}

TEST_CASE("32 levels of nesting are accepted and 33 are not", "[config]") {
  auto const nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  REQUIRE(problems_of(nested(deepest_yaml_nesting)).empty());
  REQUIRE(problems_of(nested(deepest_yaml_nesting + 1))
              .find("found more nesting; accepted: at most 32") != std::string::npos);
}

TEST_CASE("a file full of mistakes lists the first hundred", "[config]") {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a: 1\n";
  std::string const problems = problems_of(text);
  REQUIRE(std::count(problems.begin(), problems.end(), '\n') == 100);
  REQUIRE(problems.find("(only the first 100 problems are listed)") != std::string::npos);
}

}  // namespace
}  // namespace stagecraft::yaml_tree_test
