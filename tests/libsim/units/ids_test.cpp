#include "libsim/units/ids.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <type_traits>

namespace stagecraft {

TEST_CASE("ids of different kinds do not convert into each other or into integers") {
  STATIC_REQUIRE_FALSE(std::is_convertible_v<GroupId, GridId>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<int, GroupId>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<GroupId, int>);
  STATIC_REQUIRE(GroupId{1} < GroupId{2});
}

TEST_CASE("an item of an IdVector is found under the id that it was given") {
  IdVector<GroupId, std::string> names;
  GroupId const first = names.push_back("tensor");
  GroupId const second = names.push_back("data");
  REQUIRE(names[first] == "tensor");
  REQUIRE(names[second] == "data");
  REQUIRE(second.value() == 1);
  REQUIRE_THROWS_AS(names.at(GroupId{2}), std::out_of_range);
}

}  // namespace stagecraft
