#include "libsim/engine/outside_memory.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::outside_memory_test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

/// Nodes of eight with easy numbers: every kind of buffer is another power of ten.
System system_of_eight() {
  System system;
  system.accelerator.memory.value = Bytes{100'000 * mib};
  system.node.accelerators.value = 8;
  DeviceUse& use = system.device.emplace();
  use.driver.value = Bytes{900 * mib};
  use.context.value = Bytes{500 * mib};
  use.node_channels.value = 3;
  use.network_channels.value = 2;
  use.message_channels.value = 5;
  use.node_buffers.value = Bytes{mib};
  use.network_buffers.value = Bytes{100 * mib};
  use.multicast.value = Bytes{10'000 * mib};
  return system;
}

std::int64_t communicators(TrainingConfig const& config, System const& system, std::size_t stage) {
  TrainingPlan const plan = make_plan(as_settled(config));
  return outside_memory(plan, system, plan.stages[StageId::of_index(stage)])->communicators / mib;
}

}  // namespace

TEST_CASE("a rank has the buffers of its groups' rings and of its neighbours", "[engine]") {
  System const system = system_of_eight();
  REQUIRE(communicators(modest_run(1, 1), system, 0) == 0);
  // Two tensor ranks on one node: one ring. The group of the model is that of the tensor ranks.
  REQUIRE(communicators(modest_run(2, 1), system, 0) == 3);
  // Two stages of two: the tensor group (3), the model's four (3, and 4 x 10,000 in the switch),
  // and a neighbour on the node (3).
  TrainingConfig config = modest_run(2, 2);
  config.model.tied_embeddings = false;
  REQUIRE(communicators(config, system, 0) == 40'009);
  REQUIRE(communicators(config, system, 1) == 40'009);
  // With one accelerator a node every ring is over the network; so is the neighbour.
  System apart = system;
  apart.node.accelerators.value = 1;
  REQUIRE(communicators(config, apart, 0) == 200 + 200 + 500);
}

TEST_CASE("a software stack makes communicators of its own and has its version of NCCL",
          "[engine]") {
  System system = system_of_eight();
  CommunicatorUse& use = system.software.communicators;
  use.of_all.value = 2;
  use.of_node.value = true;
  use.of_stages.value = true;
  TrainingConfig config = modest_run(2, 2);
  config.model.tied_embeddings = false;
  // Rings of the tensor group, of the stages and to the neighbour (3 each), and of four ranks: one
  // that the node's shares with the model's, two of all ranks (3, and 4 x 10,000 in the switch).
  REQUIRE(communicators(config, system, 0) == 3 * 3 + 3 * 40'003);
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE(outside_memory(plan, system, plan.stages.front())->communicator_count == 5);
  // The stack's version has other buffers in the switch, and connects trees as well as rings.
  use.multicast.value = Bytes{7 * mib};
  use.trees.value = true;
  REQUIRE(communicators(config, system, 0) == 3 * 3 + 3 * (2 * 3 + 4 * 7));
  // On two nodes of four: the node's, which the tensor group shares; the model's and the two of all
  // ranks, which lead over the network (200) and whose switches have one neighbour in their tree
  // (4 channels of 100); the stages' (200), and the message's (500).
  use.multicast_channels.value = 4;
  system.node.accelerators.value = 4;
  config.parallel.tensor = 4;
  std::int64_t const node = 2 * 3 + 4 * 7;
  REQUIRE(communicators(config, system, 0) == node + 3 * (node + 200 + 400) + 200 + 500);
  REQUIRE(communicators(modest_run(1, 1), system, 0) == 0);
  // A system whose switches do not reduce has no such buffers under any stack, nor such trees.
  system.device->multicast.value = Bytes{0};
  REQUIRE(communicators(config, system, 0) == 2 * 3 + 3 * (2 * 3 + 200) + 200 + 500);
}

TEST_CASE("what is outside the allocator is a set reserve, a sum, or the usual reserve",
          "[engine]") {
  System system = system_of_eight();
  TrainingConfig config = modest_run(2, 1);
  auto const outside = [&] {
    TrainingPlan const plan = make_plan(as_settled(config));
    return bytes_outside(plan, system, plan.stages.front());
  };
  REQUIRE(outside() == (900 + 500 + 3) * mib);
  config.memory.reserve = Bytes{7};
  REQUIRE(outside() == 7);
  config.memory.reserve.reset();
  system.device.reset();
  REQUIRE(outside() == 2048 * mib);
}

}  // namespace stagecraft::outside_memory_test
