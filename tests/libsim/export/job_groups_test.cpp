#include "libsim/export/job_groups.hpp"

#include <catch2/catch.hpp>

#include "libsim/run/run_config.hpp"

namespace stagecraft {

namespace {

/// Two stages, two replicas, four tensor ranks, two key and value heads.
TrainingPlan small_plan() {
  return make_plan(load_run_config(STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present.yaml",
                                   {"parallel.tensor=4", "parallel.pipeline=2", "parallel.data=2",
                                    "model.kv_heads=2", "batch.global=16"})
                       .training);
}

}  // namespace

TEST_CASE("groups of a job have the ranks that share what the collective is about") {
  TrainingPlan const plan = small_plan();
  JobGroups groups{plan};
  REQUIRE(groups.ranks() == 16);
  auto const members = [&](CollectiveGroup group, std::int32_t rank) {
    return groups.members()[static_cast<std::size_t>(groups.number_of(group, rank))];
  };
  using Ranks = std::vector<std::int32_t>;
  REQUIRE(members(CollectiveGroup::tensor, 6) == Ranks{4, 5, 6, 7});
  REQUIRE(members(CollectiveGroup::kv_replicas, 6) == Ranks{6, 7});
  REQUIRE(members(CollectiveGroup::data, 6) == Ranks{2, 6});
  REQUIRE(members(CollectiveGroup::embedding, 6) == Ranks{6, 14});
  REQUIRE(members(CollectiveGroup::model, 6) == Ranks{4, 5, 6, 7, 12, 13, 14, 15});
  REQUIRE(members(CollectiveGroup::job, 6).size() == 16);
  REQUIRE(groups.number_of(CollectiveGroup::data, 2) == groups.number_of(CollectiveGroup::data, 6));
  REQUIRE(groups.number_of(CollectiveGroup::data, 2) != groups.number_of(CollectiveGroup::data, 3));
}

TEST_CASE("collectives are known by the names that traces give them") {
  auto const collectives = collectives_of(small_plan());
  REQUIRE(collectives.at("attention.qkv.all_gather").kind == OpKind::all_gather);
  REQUIRE(collectives.at("attention.qkv.all_gather").group == CollectiveGroup::tensor);
  REQUIRE(collectives.at("step.all_reduce_gradients").group == CollectiveGroup::data);
  REQUIRE(collectives.at("step.all_reduce_embedding_gradient").group == CollectiveGroup::embedding);
  REQUIRE_FALSE(collectives.contains("attention.qkv.forward"));
}

}  // namespace stagecraft
