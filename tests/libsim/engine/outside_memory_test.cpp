#include "libsim/engine/outside_memory.hpp"

#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft {
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

}  // namespace stagecraft
