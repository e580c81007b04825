#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/memory/repeat_search.hpp"

namespace stagecraft::repeated_state_test {
namespace {

using State = RepeatedState::State;

/// What each look says, with 0 for nullopt.
std::vector<std::int32_t> looks_at(std::vector<State> const& states) {
  RepeatedState repeated;
  std::vector<std::int32_t> found;
  for (State const& state : states) found.push_back(repeated.looks_since(state).value_or(0));
  return found;
}

/// A state {other, ...} that has the digest of the state {first, second}.
State with_equal_digest(std::int64_t first, std::int64_t second, std::int64_t other) {
  // The digest of two values, before the second of them.
  auto const before = [](std::int64_t value) {
    std::uint64_t const product =
        (std::uint64_t{2} ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
    return product ^ (product >> 29);
  };
  return {other, static_cast<std::int64_t>(before(first) ^ before(other) ^
                                           static_cast<std::uint64_t>(second))};
}

}  // namespace

TEST_CASE("a state that has come back is known when it is seen once more", "[plan]") {
  REQUIRE(looks_at({{1}, {2}, {2}, {2}}) == std::vector{0, 0, 0, 1});
  REQUIRE(looks_at({{9}, {1}, {2}, {3}, {1}, {2}, {3}, {1}}) ==
          std::vector{0, 0, 0, 0, 0, 0, 0, 3});
}

TEST_CASE("states that never come back have no period", "[plan]") {
  RepeatedState repeated;
  for (std::int64_t i = 0; i < 100; ++i) REQUIRE_FALSE(repeated.looks_since({i, i % 3}));
}

TEST_CASE("a state that does not come back when it is due is forgotten", "[plan]") {
  REQUIRE(looks_at({{1}, {2}, {1}, {3}, {4}, {5}, {5}, {5}}) ==
          std::vector{0, 0, 0, 0, 0, 0, 0, 1});
}

TEST_CASE("a state is not taken for another with the same digest", "[plan]") {
  State const one{1, 2};
  State const other = with_equal_digest(1, 2, 7);
  REQUIRE(one != other);
  REQUIRE(looks_at({one, other, one, other, one}) == std::vector{0, 0, 0, 0, 0});
  // The digests are equal, or the second look would not keep the state that the third finds.
  REQUIRE(looks_at({one, other, other}) == std::vector{0, 0, 1});
}

}  // namespace stagecraft::repeated_state_test
