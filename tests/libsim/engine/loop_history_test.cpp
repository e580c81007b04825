#include "libsim/engine/player/loop_history.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace stagecraft::loop_history_test {
namespace {

/// Two ranks, the second with two components. Returns what is known after the last border.
std::optional<LoopHistory::Repetition> last_repetition(
    std::vector<std::vector<int>> const& borders) {
  LoopHistory history{{1, 2}, static_cast<int>(borders.size()) - 1};
  std::optional<LoopHistory::Repetition> repetition;
  for (std::size_t i = 0; i < borders.size(); ++i) {
    auto const border = static_cast<int>(i);
    history.state(0, border)[0] = SimTime{borders[i][0]};
    REQUIRE_FALSE(history.is_complete_with(border));
    history.state(1, border)[0] = SimTime{borders[i][1]};
    history.state(1, border)[1] = SimTime{borders[i][2]};
    REQUIRE(history.is_complete_with(border));
    repetition = history.repetition(border);
  }
  return repetition;
}

TEST_CASE("a state that is an earlier one and a constant is a repetition", "[engine]") {
  auto const found = last_repetition({{0, 5, 7}, {10, 15, 17}});
  REQUIRE(found);
  REQUIRE(found->loops == 1);
  REQUIRE(found->shift == SimTime{10});
}

TEST_CASE("a state with one component off by a picosecond is none", "[engine]") {
  REQUIRE_FALSE(last_repetition({{0, 5, 7}, {10, 15, 18}}));
}

TEST_CASE("the shortest of several repetitions is found, also over two times through the loop",
          "[engine]") {
  auto const two = last_repetition({{0, 5, 7}, {10, 16, 17}, {21, 26, 28}});
  REQUIRE(two);
  REQUIRE(two->loops == 2);
  REQUIRE(two->shift == SimTime{21});
  REQUIRE(last_repetition({{0, 5, 7}, {10, 15, 17}, {20, 25, 27}})->loops == 1);
}

}  // namespace
}  // namespace stagecraft::loop_history_test
