#include "libsim/program/forced_routing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <vector>

namespace stagecraft::forced_routing_test {
namespace {

using Rows = std::vector<std::int64_t>;

TEST_CASE("forced counts give every expert its rows, and every token different experts",
          "[model]") {
  std::int64_t const tokens = GENERATE(1, 2, 7, 16, 48, 1000);
  Rows const rows =
      GENERATE_COPY(Rows{tokens, 0, tokens, 0}, Rows{0, tokens, 1, tokens - 1},
                    Rows{tokens / 2, tokens - tokens / 2, tokens / 2, tokens - tokens / 2});
  ForcedCounts const counts{rows, tokens};
  REQUIRE(counts.per_token() == 2);
  Rows given(rows.size());
  counts.add_rows(0, tokens, given);
  REQUIRE(given == rows);
  for (std::int64_t token = 0; token < tokens; ++token) {
    REQUIRE(counts.expert_of(token, 0) != counts.expert_of(token, 1));
  }
}

TEST_CASE("tokens of a part of a sequence choose experts almost in proportion", "[model]") {
  // The discrepancy of multiples of the golden section: of n consecutive ones as many lie in an
  // interval as its share, but for a number that grows like log n (Niederreiter 1992, theorem 3.4).
  std::int64_t const tokens = 4096;
  Rows const rows{1024, 3072, 64, 2000, 1000, 1032};
  ForcedCounts const counts{rows, tokens};
  for (std::int64_t const parts : {2, 8, 64}) {
    for (std::int64_t part = 0; part < parts; ++part) {
      Rows given(rows.size());
      counts.add_rows(part * tokens / parts, tokens / parts, given);
      for (std::size_t e = 0; e < rows.size(); ++e) {
        REQUIRE(std::abs(given[e] - rows[e] / parts) <= 8);
      }
    }
  }
}

TEST_CASE("a microbatch without counts of its own has those of all", "[model]") {
  ForcedRouting routing;
  routing.add(3, every_microbatch, ForcedCounts{{2, 2}, 2});
  REQUIRE_FALSE(routing.depends_on_microbatch());
  REQUIRE(routing.of(3, BatchMicrobatchId{17}).rows(0) == 2);
  routing.add(3, BatchMicrobatchId{5}, ForcedCounts{{1, 3}, 4});
  REQUIRE(routing.depends_on_microbatch());
  REQUIRE(routing.of(3, BatchMicrobatchId{5}).rows(1) == 3);
  REQUIRE(routing.of(3, BatchMicrobatchId{4}).rows(1) == 2);
  REQUIRE_THROWS_AS(routing.of(2, BatchMicrobatchId{0}), std::out_of_range);
}

}  // namespace
}  // namespace stagecraft::forced_routing_test
