#include "libsim/cost/oversubscription.hpp"

#include <catch2/catch.hpp>

#include "libsim/cost/collective_time.hpp"
#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::oversubscription_test {
namespace {

/// Nodes of 8 with 8 adapters of 10 GB/s, in units of so many nodes.
System with_units(int nodes, double oversubscription) {
  System system = invented_system();
  system.network.topology.value = {.oversubscription = oversubscription, .nodes_per_unit = nodes};
  return system;
}

/// Seconds in which `ranks` ranks, so many of them on each node, gather 64 MB.
double gather(int ranks, int per_node, int stride, System const& system) {
  NodeSpread const spread{.ranks = ranks, .per_node = per_node, .stride = stride};
  return collective_time(OpKind::all_gather, Bytes{64'000'000}, spread, system).value;
}

TEST_CASE("a ring leaves a unit from one of its nodes", "[cost]") {
  // 8 nodes in two units of 4, whose links carry 4/8 of a node's adapters: half the ring's rate.
  REQUIRE(gather(64, 8, 1, with_units(4, 8)) == Approx(2 * 63e6 / 80e9));
  // Nothing is slower if the links of a unit carry at least what one node sends.
  REQUIRE(gather(64, 8, 1, with_units(4, 4)) == Approx(63e6 / 80e9));
  REQUIRE(gather(64, 8, 1, with_units(4, 1)) == Approx(63e6 / 80e9));
  // Four nodes fill a unit.
  REQUIRE(gather(32, 8, 1, with_units(4, 8)) == Approx(62e6 / 80e9));
}

TEST_CASE("groups with every s-th node leave a unit from s nodes", "[cost]") {
  // One rank on every second node, with one of eight adapters: 2 of 4 nodes send 8/4 of what the
  // links of their unit carry.
  REQUIRE(gather(4, 1, 2, with_units(4, 8)) == Approx(4 * 48e6 / 10e9));
  // Every fourth node, and every eighth: all nodes send beyond their unit.
  REQUIRE(gather(4, 1, 4, with_units(4, 8)) == Approx(8 * 48e6 / 10e9));
  REQUIRE(gather(4, 1, 8, with_units(4, 8)) == Approx(8 * 48e6 / 10e9));
  // Two groups of two nodes each share a unit of four nodes.
  REQUIRE(gather(2, 1, 2, with_units(4, 8)) == Approx(32e6 / 10e9));
}

TEST_CASE("a group that joins stages leaves a unit from the nodes of one stage", "[cost]") {
  // Eight stages of one node each; the first one and the last one reduce a tied embedding.
  TrainingPlan const plan = make_plan(as_settled(modest_run(8, 8)));
  Op op;
  op.kind = OpKind::all_reduce;
  op.group = plan.roles.embedding;
  op.payload = Bytes{1'000'000};
  auto const seconds = [&](int unit) {
    System const system = with_units(unit, 8);
    return to_seconds(CostModel{system, plan}.duration(op));
  };
  REQUIRE(seconds(8) == Approx(1e6 / 10e9));      // all stages are in one unit
  REQUIRE(seconds(4) == Approx(2 * 1e6 / 10e9));  // one of four nodes
}

TEST_CASE("all-reduces, shifts and messages are slowed down as gathers are", "[cost]") {
  System const wide = with_units(4, 1);
  System const narrow = with_units(4, 8);
  NodeSpread const spread{.ranks = 64, .per_node = 8};
  for (OpKind const kind : {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::ring_shift}) {
    REQUIRE(collective_time(kind, Bytes{1'000'000}, spread, narrow).value ==
            Approx(2 * collective_time(kind, Bytes{1'000'000}, spread, wide).value));
  }
}

TEST_CASE("an all-to-all sends most beyond its unit", "[cost]") {
  // 16 nodes in units of 4: of 15 other nodes 12 are in other units. 128 ranks send 1 MB each, of
  // which 120/128 leave the node.
  System const system = with_units(4, 2);
  NodeSpread const spread{.ranks = 128, .per_node = 8};
  double const outside = 1e6 * 120 / 128 / (10e9 * 0.86);
  REQUIRE(collective_time(OpKind::all_to_all, Bytes{1'000'000}, spread, system).value ==
          Approx(2 * 12.0 / 15 * outside));
  // Every second node: of 15 other nodes of the group 14 are in other units of 4.
  NodeSpread const every_second{.ranks = 128, .per_node = 8, .stride = 2};
  REQUIRE(border_slowdown(OpKind::all_to_all, every_second, system) == Approx(2 * 14.0 / 15));
}

TEST_CASE("a message between stages passes the border with those of its stage", "[cost]") {
  System const system = with_units(4, 8);
  auto const slowdown = [&](int from, int to, int nodes) {
    return border_slowdown({.from = from, .to = to, .nodes = nodes}, system);
  };
  REQUIRE(slowdown(0, 2, 2) == 1);
  REQUIRE(slowdown(2, 4, 2) == 4);  // two of four nodes
  REQUIRE(slowdown(4, 2, 2) == 4);  // gradients go back
  REQUIRE(slowdown(0, 8, 8) == 8);
  // Stages of three nodes: node 0 sends to node 3 of its unit, node 1 beyond it.
  REQUIRE(slowdown(0, 3, 3) == 6);
}

TEST_CASE("what was measured over nodes is not slowed down", "[cost]") {
  System system = with_units(4, 8);
  system.network.bus_bandwidth.value = {{2, {40e9}}};
  system.network.gather_bandwidth.value = {{2, {40e9}}};
  NodeSpread const spread{.ranks = 64, .per_node = 8};
  REQUIRE(gather(64, 8, 1, system) == Approx(63e6 / 40e9));
  REQUIRE(collective_time(OpKind::all_reduce, Bytes{64'000'000}, spread, system).value ==
          Approx(126e6 / 40e9));
}

TEST_CASE("a leaf switch holds as many nodes as it has ports, with rails, else fewer", "[cost]") {
  System system = invented_system();
  NetworkTopology& topology = system.network.topology.value;
  REQUIRE(nodes_per_unit(system.node, system.network) == 0);
  topology = {.oversubscription = 2, .leaf_ports = 32};
  REQUIRE(nodes_per_unit(system.node, system.network) == 4);  // 8 ports for each node
  system.network.adapters.value = 2;
  REQUIRE(nodes_per_unit(system.node, system.network) == 16);
  topology.rails = true;
  REQUIRE(nodes_per_unit(system.node, system.network) == 32);
}

TEST_CASE("groups and messages of a plan cross units by where their ranks are", "[cost]") {
  // 16 tensor ranks take two nodes of 8, so that the four replicas of a stage are on every second
  // node of 8, and the next stage begins on the ninth. Units of four nodes hold two replicas.
  TrainingConfig config = modest_run(16, 2, 4);
  config.model = gpt(8, 128, 16, 64, 1000);
  config.schedule.scatter_gather = false;
  TrainingPlan const plan = make_plan(as_settled(config));
  System const system = with_units(4, 8);
  CostModel const cost{system, plan};
  Op op;
  op.kind = OpKind::all_gather;
  op.group = plan.roles.gradients;
  op.payload = Bytes{4'000'000};
  REQUIRE(to_seconds(cost.duration(op)) == Approx(4 * 3e6 / 10e9));
  op.group = plan.roles.tensor;
  op.payload = Bytes{16'000'000};
  REQUIRE(to_seconds(cost.duration(op)) == Approx(15e6 / 80e9));
  double const sent = static_cast<double>(plan.sent_bytes().count());
  REQUIRE(to_seconds(cost.message_cost(StageId{0}, StageId{1}).occupancy) ==
          Approx(8 * sent / 10e9));
}

}  // namespace
}  // namespace stagecraft::oversubscription_test
