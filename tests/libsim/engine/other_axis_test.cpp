#include "tests/libsim/other_axis.hpp"

#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::other_axis_test {
namespace {

/// Appends a collective of the group of the other axis to the forward of every block of layers.
Op add_gathers(OtherPlan& made) {
  Op gather;
  gather.kind = OpKind::all_gather;
  gather.name = {"other", "all_gather"};
  gather.stream = Stream::tensor_parallel;
  gather.group = made.other;
  gather.payload = Bytes{1'000'000};
  for (BlockProgram& block : made.plan.programs.blocks) {
    if (block.kind != BlockProgram::Kind::layers) continue;
    Op wait;
    wait.kind = OpKind::wait;
    wait.waits_for = static_cast<std::int32_t>(block.forward.size());
    block.forward.push_back(gather);
    block.forward.push_back(wait);
  }
  return gather;
}

}  // namespace

TEST_CASE("an axis that nobody knows has a cost by where its ranks are", "[engine]") {
  // Half of 1 MB over 100 GB/s inside a node of 8, over 10 GB/s between nodes.
  System const system = invented_system();
  OtherPlan near = with_other_axis(make_plan(as_settled(modest_run(4, 2))));
  REQUIRE(near.plan.groups.ranks() == 16);
  REQUIRE(CostModel(system, near.plan).duration(add_gathers(near)) == to_sim_time(5e5 / 100e9));
  OtherPlan far = with_other_axis(make_plan(as_settled(modest_run(8, 2))));
  REQUIRE(CostModel(system, far.plan).duration(add_gathers(far)) == to_sim_time(5e5 / 10e9));
}

TEST_CASE("an iteration takes the time of the collectives of an axis that nobody knows",
          "[engine]") {
  System const system = invented_system();
  TrainingPlan const plain = make_plan(as_settled(modest_run(4, 1)));
  OtherPlan made = with_other_axis(plain);
  SimTime const without = simulate(made.plan, system).iteration;
  REQUIRE(without == simulate(plain, system).iteration);
  add_gathers(made);
  TrainingConfig const& config = plain.config;
  std::int64_t const gathers = config.model.layers * microbatches(config);
  REQUIRE(simulate(made.plan, system).iteration == without + gathers * to_sim_time(5e5 / 100e9));
}

TEST_CASE("gradients are summed over the ranks of another axis where these join their group",
          "[engine]") {
  // Two replicas of 4 x 2 ranks: the four holders of a parameter are ranks 0, 4, 8, 12.
  OtherPlan const made = with_other_axis(make_plan(as_settled(modest_run(4, 1, 2))));
  REQUIRE(made.plan.replicas() == 4);
  REQUIRE(made.plan.groups.membership(made.plan.roles.gradients, RankId{8})->members ==
          std::vector{RankId{0}, RankId{4}, RankId{8}, RankId{12}});
  REQUIRE(fingerprint(made.plan) != fingerprint(make_plan(as_settled(modest_run(4, 1, 2)))));
}

}  // namespace stagecraft::other_axis_test
