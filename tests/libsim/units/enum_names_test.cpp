#include "libsim/units/enum_names.hpp"

#include <catch2/catch.hpp>

namespace stagecraft {

enum class Direction : std::uint8_t { up, down };

template <>
struct EnumNames<Direction> {
  static constexpr std::array<std::pair<Direction, std::string_view>, 2> all{
      {{Direction::up, "up"}, {Direction::down, "down"}}};
};

TEST_CASE("a value and its name stand for each other", "[units]") {
  REQUIRE(name_of(Direction::down) == "down");
  REQUIRE(value_named<Direction>("down") == Direction::down);
  REQUIRE(accepted_names<Direction>() == "up, down");
}

TEST_CASE("a text that names no value, and a value without a name, are errors", "[units]") {
  REQUIRE(value_named<Direction>("left") == std::nullopt);
  REQUIRE_THROWS_AS(name_of(static_cast<Direction>(2)), std::out_of_range);
}

}  // namespace stagecraft
