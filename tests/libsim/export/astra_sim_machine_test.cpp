#include "libsim/export/astra_sim_machine.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/libsim/invented_system.hpp"

namespace stagecraft::astra_sim_machine_test {
namespace {

using Catch::Contains;

/// 100 GB/s and 2 us per step in a node of eight, 10 GB/s and 5 us between nodes.
System machine() {
  System system = invented_system();
  system.node.all_gather.value.latency = {14e-6};
  system.network.latency.value = {5e-6};
  return system;
}

}  // namespace

TEST_CASE("ASTRA-sim gets a dimension for the node and one for what connects nodes") {
  // 1e11 / 2^30 and 1e10 / 2^30.
  REQUIRE_THAT(astra_sim_network(machine(), 24),
               Contains("topology: [ FullyConnected, FullyConnected ]\n"
                        "npus_count: [ 8, 3 ]\n"
                        "bandwidth: [ 93.132, 9.313 ]  # GiB/s\n"
                        "latency: [ 2000.0, 5000.0 ]  # ns\n"));
  auto const json = nlohmann::json::parse(astra_sim_system(machine(), 24));
  REQUIRE(json.at("all-reduce-implementation") == std::vector<std::string>{"ring", "ring"});
  REQUIRE(json.at("local-mem-bw") == 1000);
}

TEST_CASE("a job that has one node, or nodes that are not full, is one dimension for ASTRA-sim") {
  REQUIRE_THAT(astra_sim_network(machine(), 8),
               Contains("npus_count: [ 8 ]\nbandwidth: [ 93.132 ]  # GiB/s\nlatency: [ 2000.0 ]"));
  REQUIRE_THAT(astra_sim_network(machine(), 12),
               Contains("npus_count: [ 12 ]\nbandwidth: [ 9.313 ]"));
  REQUIRE_THAT(astra_sim_network(machine(), 1), Contains("npus_count: [ 1 ]\n"));
  auto const json = nlohmann::json::parse(astra_sim_system(machine(), 8));
  REQUIRE(json.at("all-gather-implementation") == std::vector<std::string>{"ring"});
}

TEST_CASE(
    "ASTRA-sim's dimension between nodes has the rate of a ring through oversubscribed links") {
  // Units of 2 nodes with 2/4 of a node's adapters: half of 9.313.
  System system = machine();
  system.network.topology.value = {.oversubscription = 4, .nodes_per_unit = 2};
  REQUIRE_THAT(astra_sim_network(system, 24), Contains("bandwidth: [ 93.132, 4.657 ]"));
  REQUIRE_THAT(astra_sim_network(system, 16), Contains("bandwidth: [ 93.132, 9.313 ]"));
}

}  // namespace stagecraft::astra_sim_machine_test
