#include "libsim/export/job_groups.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "tests/libsim/other_axis.hpp"

namespace stagecraft::job_groups_test {

namespace {

/// Two stages, two replicas, four tensor ranks, two key and value heads.
TrainingPlan small_plan() {
  return make_plan(
      as_settled(load_run_config(STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present.yaml",
                                 {"parallel.tensor=4", "parallel.pipeline=2", "parallel.data=2",
                                  "model.kv_heads=2", "batch.global=16"})
                     .training));
}

std::vector<std::vector<int>> numbers_of(std::vector<std::vector<RankId>> const& groups) {
  std::vector<std::vector<int>> numbers;
  for (std::vector<RankId> const& group : groups) {
    std::vector<int>& of_group = numbers.emplace_back();
    for (RankId const rank : group) of_group.push_back(rank.value());
  }
  return numbers;
}

}  // namespace

TEST_CASE("groups are numbered in the order in which somebody asks for one of their ranks") {
  TrainingPlan const plan = small_plan();
  GroupNumbers numbers{plan.groups};
  REQUIRE(numbers.number_of(plan.roles.gradients, RankId{6}) == 0);
  REQUIRE(numbers.number_of(plan.roles.tensor, RankId{6}) == 1);
  REQUIRE(numbers.number_of(plan.roles.gradients, RankId{2}) == 0);
  REQUIRE(numbers.number_of(plan.roles.gradients, RankId{3}) == 2);
  REQUIRE(numbers_of(numbers.members()) ==
          std::vector<std::vector<int>>{{2, 6}, {4, 5, 6, 7}, {3, 7}});
}

TEST_CASE("an axis that nobody knows has its groups too") {
  OtherPlan const made = with_other_axis(small_plan());
  GroupNumbers numbers{made.plan.groups};
  REQUIRE(numbers.number_of(made.other, RankId{6}) == 0);
  REQUIRE(numbers.number_of(made.other, RankId{2}) == 0);
  REQUIRE(numbers_of(numbers.members()) == std::vector<std::vector<int>>{{2, 6}});
}

TEST_CASE("collectives are known by the names that traces give them") {
  TrainingPlan const plan = small_plan();
  auto const collectives = collectives_of(plan);
  REQUIRE(collectives.at("attention.qkv.all_gather").kind == OpKind::all_gather);
  REQUIRE(collectives.at("attention.qkv.all_gather").group == plan.roles.tensor);
  REQUIRE(collectives.at("step.all_reduce_gradients").group == plan.roles.gradients);
  REQUIRE(collectives.at("step.all_reduce_embedding_gradient").group == plan.roles.embedding);
  REQUIRE_FALSE(collectives.contains("attention.qkv.forward"));
}

}  // namespace stagecraft::job_groups_test
