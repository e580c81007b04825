#include "libsim/sweep/condition.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

namespace stagecraft {
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

TEST_CASE("what is no number is in no order, and divided by nothing no number", "[sweep]") {
  REQUIRE_FALSE(holds("m.x < 4 or m.x >= 4", point));
  REQUIRE_FALSE(holds("p.t % 0 == 0", point));
  REQUIRE_FALSE(holds("recompute", point));
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

}  // namespace stagecraft
