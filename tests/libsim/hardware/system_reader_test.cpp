#include "libsim/hardware/system_reader.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace stagecraft::system_reader_test {
namespace {

std::string const selene = std::string{STAGECRAFT_SOURCE_DIR} + "/configs/systems/selene-a100.yaml";

System read(YamlNode const& root, Diagnostics& diagnostics) {
  System system = read_system(ConfigNode{root, "", diagnostics});
  diagnostics.throw_if_any();
  return system;
}

/// The A100 system with the constant of a section replaced by YAML text.
System with(std::string const& section, std::string const& key, std::string const& text) {
  Diagnostics diagnostics;
  auto root = parse_yaml_file(selene, Place{}, "", diagnostics);
  YamlNode value = *parse_yaml(text, "new.yaml", diagnostics);
  YamlNode& below = *root->find(section);
  if (YamlNode* const given = below.find(key)) {
    *given = std::move(value);
  } else {
    below.add_entry(*parse_yaml(key, "new.yaml", diagnostics), std::move(value));
  }
  diagnostics.throw_if_any();
  return read(*root, diagnostics);
}

TEST_CASE("the A100 system has the data sheet's numbers", "[hardware]") {
  Diagnostics diagnostics;
  System const system = read(*parse_yaml_file(selene, Place{}, "", diagnostics), diagnostics);
  // NVIDIA A100 data sheet: 312 TFLOP/s, 80 GB, 2039 GB/s, 108 SMs; DGX A100: 8 GPUs, 200 Gb/s
  // each.
  REQUIRE(system.accelerator.peak.value.at(Precision::fp16) == FlopsPerSecond{312e12});
  REQUIRE(system.accelerator.bandwidth.value == BytesPerSecond{2039e9});
  REQUIRE(system.accelerator.multiprocessors.value == 108);
  REQUIRE(system.node.accelerators.value == 8);
  REQUIRE(system.network.bandwidth.value == BytesPerSecond{25e9});
}

TEST_CASE("a constant without a source was given by the user, and an empty source is none",
          "[hardware]") {
  for (char const* const text : {"{value: 40 GiB}", "40 GiB"}) {
    System const system = with("accelerator", "memory", text);
    REQUIRE(system.accelerator.memory.value == Bytes{std::int64_t{40} << 30});
    REQUIRE(system.accelerator.memory.source == "given in new.yaml");
    REQUIRE(system.accelerator.memory.fitted.empty());
  }
  REQUIRE(with("accelerator", "peak", "{bf16: 2 PFLOP/s}").accelerator.peak.value ==
          std::map<Precision, FlopsPerSecond>{{Precision::bf16, FlopsPerSecond{2e15}}});
  REQUIRE_THROWS_WITH(
      with("accelerator", "memory", "{value: 80 GiB, source: ''}"),
      "new.yaml:1:25: accelerator.memory.source: found the text ''; accepted: text");
  REQUIRE_THROWS_WITH(with("accelerator", "memory", "{source: x}"),
                      Catch::Contains("accelerator.memory.value: missing; accepted: a size"));
}

TEST_CASE("a constant says on what it was fitted, not merely that it was", "[hardware]") {
  REQUIRE(with("calibration", "gemm_efficiency", "{value: 0.8, source: x, fitted: on table 4}")
              .calibration.gemm_efficiency.fitted == "on table 4");
  REQUIRE(with("calibration", "gemm_efficiency", "{value: 0.8, source: x, fitted: no}")
              .calibration.gemm_efficiency.fitted.empty());
  REQUIRE_THROWS_WITH(
      with("calibration", "gemm_efficiency", "{value: 0.8, source: x, fitted: yes}"),
      "new.yaml:1:33: calibration.gemm_efficiency.fitted: found 'yes'; accepted: no, or on "
      "what it was fitted");
}

TEST_CASE("efficiencies and rates cannot be nothing", "[hardware]") {
  REQUIRE_THROWS_WITH(
      with("calibration", "stream_efficiency", "{value: 0, source: x}"),
      "new.yaml:1:9: calibration.stream_efficiency.value: found '0'; accepted: a number from "
      "0.001 to 1");
  REQUIRE_THROWS_WITH(
      with("network", "bandwidth", "{value: 0 B/s, source: x}"),
      "new.yaml:1:9: network.bandwidth.value: found '0 B/s'; accepted: a rate from 1 to "
      "10^24 per second");
  REQUIRE_THROWS_WITH(
      with("calibration", "overlap_slowdown", "{value: 1, source: x}"),
      Catch::Contains("overlap_slowdown.value: found '1'; accepted: a number from 0 to below 1"));
}

TEST_CASE("a collective is a latency and a bandwidth, or a table of ascending sizes",
          "[hardware]") {
  CollectiveCost const cost =
      with("node", "p2p", "{value: {latency: 5 us, bandwidth: 1 GB/s}, source: x}").node.p2p.value;
  REQUIRE(cost == CollectiveCost{Seconds{5e-6}, BytesPerSecond{1e9}, {}, 0});
  REQUIRE_THROWS_WITH(with("node", "all_reduce",
                           "{value: {table: [[4 MiB, 1 us], [1 MiB, 2 us]], ranks: 8}, source: x}"),
                      "new.yaml:1:34: node.all_reduce.value.table[1][0]: found '1 MiB'; accepted: "
                      "a size above that of "
                      "the point before");
  REQUIRE_THROWS_WITH(
      with("node", "all_reduce", "{value: {table: [[4 MiB], [8 MiB, 1 us]]}, source: x}"),
      "new.yaml:1:18: node.all_reduce.value.table[0]: found a list; accepted: a point [size, "
      "time], such as [1 MiB, 92.8 us]\n"
      "new.yaml:1:9: node.all_reduce.value.ranks: missing; accepted: a whole number "
      "from 2 to 1000000");
  REQUIRE_THROWS_WITH(
      with("node", "all_reduce", "{value: {table: [], ranks: 8}, source: x}"),
      Catch::Contains(
          "node.all_reduce.value.table: found an empty list; accepted: at least two points"));
  REQUIRE_THROWS_WITH(with("node", "all_reduce",
                           "{value: {latency: 1 us, table: [[1 B, 1 us]], ranks: 2}, source: x}"),
                      Catch::Contains("node.all_reduce.value.latency: found an unknown key"));
}

TEST_CASE("the topology of a network is a unit of nodes, or a leaf switch, and what leaves it",
          "[hardware]") {
  System const pods = with("network", "topology", "{nodes_per_unit: 384, oversubscription: 7}");
  REQUIRE(pods.network.topology.value ==
          NetworkTopology{.oversubscription = 7, .nodes_per_unit = 384});
  REQUIRE(pods.network.topology.source == "given in new.yaml");
  REQUIRE(to_json(pods).at("network").at("topology").at("value").dump() ==
          R"({"oversubscription":7.0,"nodes_per_unit":384})");
  System const leaves = with("network", "topology",
                             "{value: {leaf_ports: 32, rails: true, oversubscription: 1.5}, "
                             "source: the plan of the hall}");
  REQUIRE(leaves.network.topology.value ==
          NetworkTopology{.oversubscription = 1.5, .leaf_ports = 32, .rails = true});
  REQUIRE(leaves.network.topology.source == "the plan of the hall");
  // What is written reads back.
  REQUIRE(
      with("network", "topology", to_json(leaves).at("network").at("topology").at("value").dump())
          .network.topology.value == leaves.network.topology.value);
  auto const refused = [](std::string const& topology, std::string const& message) {
    CAPTURE(topology);
    REQUIRE_THROWS_WITH(with("network", "topology", topology), Catch::Contains(message));
  };
  refused("{nodes_per_unit: 4}", "topology.oversubscription: missing; accepted: a number from 1");
  refused("{nodes_per_unit: 4, oversubscription: 0.5}", "oversubscription: found '0.5'");
  refused("{oversubscription: 2}",
          "found neither nodes_per_unit nor leaf_ports; accepted: exactly one of the two");
  refused("{oversubscription: 2, nodes_per_unit: 4, leaf_ports: 32}",
          "found both nodes_per_unit and leaf_ports");
  refused("{oversubscription: 2, nodes_per_unit: 4, rails: true}", "found 'rails' without");
  refused("{oversubscription: 2, nodes_per_unit: 4, spine: 2}", "topology.spine: found an unknown");
  refused("7", "network.topology: found '7'; accepted: a map");
  // DGX A100 without rails: 8 adapters on one leaf.
  refused("{oversubscription: 2, leaf_ports: 7}",
          "leaf_ports: found '7'; accepted: a port for each adapter of a node");
  REQUIRE(with("network", "topology", "{oversubscription: 2, leaf_ports: 7, rails: true}")
              .network.topology.value.leaf_ports == 7);
}

TEST_CASE("a section that is left out is one problem, beside which a base is named", "[hardware]") {
  Diagnostics diagnostics;
  auto root = parse_yaml_file(selene, Place{}, "", diagnostics);
  root->keys.pop_back();
  root->items.pop_back();
  read_system(ConfigNode{*root, "system", diagnostics});
  REQUIRE(diagnostics.problems().size() == 2);
  REQUIRE(to_string(diagnostics.problems().front()) ==
          selene + ":3:1: system.calibration: missing; accepted: a map");
  REQUIRE_THAT(to_string(diagnostics.problems().back()),
               Catch::Contains("system: found no base; accepted: all keys that are missing, or "
                               "`base: dgx-h100`"));
}

}  // namespace
}  // namespace stagecraft::system_reader_test
