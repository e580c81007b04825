#include "libsim/units/ids.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace stagecraft::ids_test {

TEST_CASE("ids of different kinds do not convert into each other or into integers") {
  STATIC_REQUIRE_FALSE(std::is_convertible_v<GroupId, GridId>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<int, GroupId>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<GroupId, int>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<RankId, StageId>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<RankId, StageId>);
  STATIC_REQUIRE(GroupId{1} < GroupId{2});
}

TEST_CASE("a range of ids has each id once, in order") {
  std::vector<int> numbers;
  for (StageId const stage : IdRange<StageId>{3}) numbers.push_back(stage.value());
  REQUIRE(numbers == std::vector{0, 1, 2});
  IdVector<RankId, std::string> const names{std::vector<std::string>{"a", "b"}};
  std::string joined;
  for (RankId const rank : names.ids()) joined += names[rank];
  REQUIRE(joined == "ab");
  REQUIRE(next(StageId{1}) == StageId{2});
  REQUIRE(previous(StageId::of_index(2)) == StageId{1});
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

}  // namespace stagecraft::ids_test
