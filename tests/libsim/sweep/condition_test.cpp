#include "libsim/sweep/condition/condition.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

namespace stagecraft::condition_test {
namespace {

/// Parses and evaluates; `values` are what its keys are worth, as a file has them.
bool holds(std::string const& text, std::map<std::string, std::string> const& values) {
  Diagnostics diagnostics;
  auto const condition = Condition::parse(text, {}, {"recompute", "strategy"}, diagnostics);
  CAPTURE(text, diagnostics.problems().size());
  REQUIRE(condition);
  std::vector<ConditionValue> found;
  for (std::string const& key : condition->keys()) found.push_back(condition_value(values.at(key)));
  std::vector<ConditionValue const*> pointers;
  for (ConditionValue const& value : found) pointers.push_back(&value);
  return condition->holds(pointers);
}

Problem problem_of(std::string const& text) {
  Diagnostics diagnostics;
  REQUIRE_FALSE(Condition::parse(text, {}, {"recompute"}, diagnostics));
  REQUIRE(diagnostics.problems().size() == 1);
  return diagnostics.problems().front();
}

std::map<std::string, std::string> const point{{"p.t", "4"},       {"p.p", "8"},
                                               {"p.s", "true"},    {"recompute", "full"},
                                               {"strategy", "12"}, {"m.x", "auto"}};

}  // namespace

TEST_CASE("a condition calculates and compares with the usual precedence", "[sweep]") {
  REQUIRE(holds("p.t * p.p == 32", point));
  REQUIRE(holds("p.t + p.p * 2 == 20", point));
  REQUIRE(holds("(p.t + p.p) * 2 == 24", point));
  REQUIRE(holds("p.p - p.t - 1 == 3", point));
  REQUIRE(holds("p.p / p.t / 2 == 1", point));
  REQUIRE(holds("p.p % 3 == 2", point));
  REQUIRE(holds("-1 < p.t", point));
  REQUIRE(holds("p.t * 2.5e-1 == 1", point));
  REQUIRE_FALSE(holds("p.t * p.p < 32", point));
  REQUIRE(holds("p.t * p.p <= 32 and p.t * p.p >= 32", point));
}

TEST_CASE("and binds tighter than or, not tighter than both", "[sweep]") {
  REQUIRE(holds("p.t == 4 or p.t == 5 and p.p == 9", point));
  REQUIRE_FALSE(holds("(p.t == 4 or p.t == 5) and p.p == 9", point));
  REQUIRE(holds("not p.t == 5 and p.p == 8", point));
  REQUIRE(holds("not (p.t == 5 or p.p == 9)", point));
}

TEST_CASE("words are equal or not, and never equal to a number", "[sweep]") {
  REQUIRE(holds("recompute == full", point));
  REQUIRE(holds("recompute != none", point));
  REQUIRE(holds("recompute in [selective, full]", point));
  REQUIRE_FALSE(holds("recompute in [selective, none]", point));
  REQUIRE(holds("p.t in [1, p.p / 2]", point));
  REQUIRE(holds("p.s == true", point));
  REQUIRE(holds("p.s and not recompute == none", point));
  REQUIRE(holds("recompute == 'full'", point));
  REQUIRE(holds("recompute != 1f1b", point));
  REQUIRE_FALSE(holds("m.x == 4", point));
  REQUIRE(holds("(recompute == full) == (p.t > 3)", point));
  REQUIRE(holds("strategy == 12", point));
}

TEST_CASE("a count is a number, and, as a case may be called so, a word too", "[sweep]") {
  std::map<std::string, std::string> const counts{{"b.g", "4k"}, {"strategy", "8B"}};
  REQUIRE(holds("b.g == 4000", counts));
  REQUIRE(holds("b.g in [1k, 4k]", counts));
  REQUIRE(holds("b.g < 4.5k", counts));
  REQUIRE_FALSE(holds("b.g != 4k", counts));
  REQUIRE(holds("strategy == 8B", counts));
  REQUIRE(holds("strategy == '8B'", counts));
  REQUIRE_FALSE(holds("strategy == '8b'", counts));
}

TEST_CASE("what is no number is in no order", "[sweep]") {
  REQUIRE_FALSE(holds("m.x < 4 or m.x >= 4", point));
  REQUIRE_FALSE(holds("recompute", point));
}

TEST_CASE("a division by zero is no number: refused where it is constant, thrown where it is not",
          "[sweep]") {
  REQUIRE(problem_of("p.t % 0 == 0").accepted == "a divisor other than 0");
  REQUIRE(problem_of("8 / (2 - 2) > 1").accepted == "a divisor other than 0");
  REQUIRE(problem_of("8 / 0 > 1").found == "' 0 > 1' after 3 characters of '8 / 0 > 1'");
  REQUIRE_THROWS_AS(holds("p.t / (p.t - 4) > 1", point), DivisionByZero);
  REQUIRE_THROWS_AS(holds("p.t % (p.t - 4) == 0", point), DivisionByZero);
  REQUIRE_FALSE(holds("p.t != 4 and p.p / (p.t - 4) > 1", point));
  REQUIRE(holds("p.t == 4 or p.p / (p.t - 4) > 1", point));
}

TEST_CASE("words where keys must be are refused, with the key that is meant", "[sweep]") {
  auto const is_meant = [](std::string const& text, std::string const& key) {
    CAPTURE(text);
    REQUIRE_THAT(problem_of(text).accepted, Catch::Contains("did you mean '" + key + "'?"));
  };
  is_meant("recomptue == full", "recompute");
  is_meant("full != recomptue", "recompute");
  is_meant("recomptue in [full, none]", "recompute");
  is_meant("recomptue > 3", "recompute");
  is_meant("recomptue", "recompute");
  is_meant("not recomptue", "recompute");
  is_meant("p.t == 4 or recomptue", "recompute");
  REQUIRE(problem_of("p.t + p.p == full").accepted == "a key to compare with the word 'full'");
}

TEST_CASE("a text that is no condition says where and what was wanted", "[sweep]") {
  REQUIRE(problem_of("p.t = 4").found.find("'= 4' after 4 characters") != std::string::npos);
  REQUIRE(problem_of("p.t ==").found.find("its end") != std::string::npos);
  REQUIRE(problem_of("(p.t == 4").accepted == "')'");
  REQUIRE(problem_of("p.t in 4").accepted == "a list in brackets");
  REQUIRE(problem_of("p.t in [4").accepted == "',' or ']'");
  REQUIRE(problem_of("p.t < full").accepted.find("numbers") == 0);
  REQUIRE(problem_of("p.t * full == 4").accepted.find("numbers") == 0);
  REQUIRE(problem_of("and p.t == 4").accepted.find("a number") == 0);
  REQUIRE(problem_of("recompute == 'full").accepted == "a word and its closing '");
  REQUIRE(problem_of(std::string(100000, '(')).accepted.find("at most 32") == 0);
}

}  // namespace stagecraft::condition_test
