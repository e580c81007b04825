#include "libsim/ranks/rank_groups.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace stagecraft::rank_groups_test {
namespace {

using Ranks = std::vector<int>;

RankGrid grid_of(std::vector<GridAxis> axes) {
  return RankGrid{IdVector<AxisId, GridAxis>{std::move(axes)}};
}

/// 4 tensor ranks, 2 context ranks, 3 replicas, 2 stages.
RankGrid four_axes() {
  return grid_of({{"tensor", 4}, {"context", 2}, {"data", 3}, {pipeline_axis, 2}});
}

Ranks members(RankGroups const& groups, GroupId id, int rank) {
  auto const membership = groups.membership(id, RankId{rank});
  Ranks numbers;
  if (!membership) return numbers;
  for (RankId const member : membership->members) numbers.push_back(member.value());
  return numbers;
}

}  // namespace

TEST_CASE("ranks are numbered with the first axis fastest", "[plan]") {
  RankGrid const grid = four_axes();
  REQUIRE(grid.ranks() == 48);
  AxisId const tensor = grid.axis("tensor"), context = grid.axis("context"),
               data = grid.axis("data");
  // 3 + 4 * (1 + 2 * (2 + 3 * 1))
  RankId const rank{47};
  REQUIRE(grid.position(rank, tensor) == 3);
  REQUIRE(grid.position(rank, context) == 1);
  REQUIRE(grid.position(rank, data) == 2);
  REQUIRE(grid.position(rank, grid.pipeline()) == 1);
  REQUIRE(grid.moved(rank, data, 0) == RankId{47 - 2 * 8});
  REQUIRE(grid.moved(grid.moved(rank, context, 0), context, 1) == rank);
  REQUIRE_FALSE(grid.find("expert"));
}

TEST_CASE("a grid whose axes are not told apart is refused", "[plan]") {
  using Catch::Contains;
  REQUIRE_THROWS_WITH(grid_of({{"tensor", 2}, {"tensor", 2}, {pipeline_axis, 1}}),
                      Contains("axis 'tensor' occurs twice"));
  REQUIRE_THROWS_WITH(grid_of({{"tensor", 0}, {pipeline_axis, 1}}),
                      Contains("accepted: 1 or more"));
  REQUIRE_THROWS_WITH(grid_of({{pipeline_axis, 2}, {"tensor", 2}}), Contains("last axis"));
  REQUIRE_THROWS_WITH(four_axes().axis("expert"), Contains("there is no axis 'expert'"));
}

TEST_CASE("a group holds the ranks that differ on the axes it joins and on no other", "[plan]") {
  RankGrid const grid = four_axes();
  RankGroups groups{grid};
  AxisId const context = grid.axis("context"), data = grid.axis("data");
  GroupId const ring = groups.add({"context group", {}, {{whole_axis(grid, context)}}});
  GroupId const pairs = groups.add({"pairs", {}, {{runs_of_axis(grid.axis("tensor"), 2)}}});
  GroupId const gradients =
      groups.add({"gradient group", {}, {{whole_axis(grid, context), whole_axis(grid, data)}}});
  REQUIRE(members(groups, ring, 47) == Ranks{43, 47});
  REQUIRE(members(groups, pairs, 47) == Ranks{46, 47});
  REQUIRE(members(groups, pairs, 45) == Ranks{44, 45});
  REQUIRE(members(groups, gradients, 47) == Ranks{27, 31, 35, 39, 43, 47});
  REQUIRE(groups.membership(gradients, RankId{35})->member == 2);
  REQUIRE(groups.members(gradients) == 6);
}

TEST_CASE("every rank is in one group of each kind, and all its members agree on that", "[plan]") {
  RankGrid const grid = four_axes();
  RankGroups groups{grid};
  groups.add({"pairs", {}, {{runs_of_axis(grid.axis("tensor"), 2)}}});
  groups.add({"gradients",
              {},
              {{whole_axis(grid, grid.axis("context"))}, {whole_axis(grid, grid.axis("data"))}}});
  groups.add({"ends", {}, {{positions_of_axis(grid.pipeline(), {0, 1})}}});
  for (GroupId const id : groups.ids()) {
    for (RankId const rank : groups.rank_ids()) {
      auto const own = groups.membership(id, rank);
      REQUIRE(own);
      REQUIRE(own->size() == groups.members(id));
      REQUIRE(own->members[static_cast<std::size_t>(own->member)] == rank);
      for (RankId const other : own->members) {
        REQUIRE(groups.membership(id, other)->members == own->members);
      }
    }
  }
}

TEST_CASE("ranks at other positions than those of a group's list take no part", "[plan]") {
  RankGrid const grid = grid_of({{"tensor", 2}, {pipeline_axis, 4}});
  RankGroups groups{grid};
  GroupId const ends = groups.add({"ends", {}, {{positions_of_axis(grid.pipeline(), {3, 0, 3})}}});
  REQUIRE(members(groups, ends, 1) == Ranks{1, 7});
  REQUIRE(members(groups, ends, 7) == Ranks{1, 7});
  REQUIRE_FALSE(groups.membership(ends, RankId{2}));
  REQUIRE(groups.members(ends) == 2);
}

TEST_CASE("stages meet where a group joins the pipeline axis", "[plan]") {
  RankGrid const grid = grid_of({{"tensor", 2}, {pipeline_axis, 4}});
  RankGroups groups{grid};
  auto const stages = [&](GroupId id, int stage) {
    Ranks numbers;
    for (StageId const member : groups.stages(id, StageId{stage})) {
      numbers.push_back(member.value());
    }
    return numbers;
  };
  GroupId const tensor = groups.add({"tensor", {}, {{whole_axis(grid, grid.axis("tensor"))}}});
  GroupId const all = groups.add({"all", {}, {{whole_axis(grid, grid.pipeline())}}});
  GroupId const ends = groups.add({"ends", {}, {{positions_of_axis(grid.pipeline(), {0, 3})}}});
  GroupId const halves = groups.add({"halves", {}, {{runs_of_axis(grid.pipeline(), 2)}}});
  REQUIRE_FALSE(groups.joins_stages(tensor));
  REQUIRE(stages(all, 2) == Ranks{0, 1, 2, 3});
  REQUIRE(stages(ends, 3) == Ranks{0, 3});
  REQUIRE(stages(ends, 1).empty());
  REQUIRE(stages(halves, 1) == Ranks{0, 1});
  REQUIRE(stages(halves, 2) == Ranks{2, 3});
}

TEST_CASE("a mirrored axis joins each position with the one as far from the other end", "[plan]") {
  RankGrid const grid = grid_of({{"data", 2}, {pipeline_axis, 6}});
  RankGroups groups{grid};
  AxisSelection const data = whole_axis(grid, grid.axis("data"));
  GroupId const pairs = groups.add({"pairs", {}, {{mirrored_axis(grid.pipeline())}}});
  GroupId const holders = groups.add({"holders", {}, {{data, mirrored_axis(grid.pipeline())}}});
  REQUIRE(members(groups, pairs, 3) == Ranks{3, 9});  // stages 1 and 4
  REQUIRE(members(groups, pairs, 9) == Ranks{3, 9});
  REQUIRE(members(groups, holders, 5) == Ranks{4, 5, 6, 7});
  REQUIRE(groups.members(holders) == 4);
  for (int const stage : {0, 1, 2, 3, 4, 5}) {
    auto const together = groups.stages(holders, StageId{stage});
    REQUIRE(together.size() == 2);
    REQUIRE(together.front().value() == std::min(stage, 5 - stage));
    REQUIRE(together.back().value() == std::max(stage, 5 - stage));
  }
  RankGrid const odd = grid_of({{pipeline_axis, 3}});
  RankGroups of_odd{odd};
  CHECK_THROWS_AS(of_odd.add({"pairs", {}, {{mirrored_axis(odd.pipeline())}}}),
                  std::invalid_argument);
}

TEST_CASE("a level spans the distance from its first member to its last", "[plan]") {
  RankGrid const grid = four_axes();
  RankGroups groups{grid};
  AxisId const tensor = grid.axis("tensor"), context = grid.axis("context"),
               data = grid.axis("data");
  GroupId const id = groups.add({"replica of everything",
                                 {},
                                 {{whole_axis(grid, tensor)},
                                  {whole_axis(grid, context), whole_axis(grid, data)},
                                  {positions_of_axis(grid.pipeline(), {1})}}});
  auto const& levels = groups.placement(id);
  REQUIRE(levels.size() == 3);
  REQUIRE(levels[0].members == 4);
  REQUIRE(levels[0].span == 3);
  REQUIRE(levels[1].members == 6);
  REQUIRE(levels[1].span == 20);  // ranks 0, 4, ..., 20
  REQUIRE(levels[2].members == 1);
  REQUIRE(levels[2].span == 0);
}

TEST_CASE("experts are numbered over the same ranks by a grid of their own", "[plan]") {
  // Experts of a stage are spread over tensor, context and data ranks alike: groups of 8 ranks that
  // hold different experts, and of 3 that hold the same.
  RankGroups groups{four_axes()};
  RankGrid const folded = grid_of({{"expert", 8}, {"expert_data", 3}, {pipeline_axis, 2}});
  GridId const id = groups.add_grid(folded);
  GroupId const experts =
      groups.add({"experts", id, {{whole_axis(folded, folded.axis("expert"))}}});
  GroupId const replicas =
      groups.add({"replicas", id, {{whole_axis(folded, folded.axis("expert_data"))}}});
  REQUIRE(members(groups, experts, 33) == Ranks{32, 33, 34, 35, 36, 37, 38, 39});
  REQUIRE(members(groups, replicas, 33) == Ranks{25, 33, 41});
  REQUIRE_THROWS_WITH(groups.add_grid(grid_of({{"expert", 24}, {pipeline_axis, 4}})),
                      Catch::Contains("another stage"));
}

TEST_CASE("a group that does not fit its grid is refused", "[plan]") {
  using Catch::Contains;
  RankGrid const grid = four_axes();
  RankGroups groups{grid};
  AxisId const tensor = grid.axis("tensor");
  REQUIRE_THROWS_WITH(groups.add({"triples", {}, {{runs_of_axis(tensor, 3)}}}),
                      Contains("triples: a selection does not fit the axis 'tensor' of size 4"));
  REQUIRE_THROWS_WITH(groups.add({"far", {}, {{positions_of_axis(tensor, {4})}}}),
                      Contains("does not fit"));
  REQUIRE_THROWS_WITH(
      groups.add({"twice", {}, {{whole_axis(grid, tensor)}, {whole_axis(grid, tensor)}}}),
      Contains("joined twice"));
}

}  // namespace stagecraft::rank_groups_test
