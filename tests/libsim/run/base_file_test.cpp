#include "libsim/run/base_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "libsim/run/config_files.hpp"
#include "tests/libsim/run/temporary_folder.hpp"

namespace stagecraft::base_file_test {
namespace {

TEST_CASE("a system file gives what differs from its base, with its own provenance", "[run]") {
  TemporaryFolder const folder;
  std::string const file = folder.write("mine.yaml",
                                        "base: selene-a100\n"
                                        "accelerator: {memory: 40 GiB}\n"
                                        "network:\n"
                                        "  bandwidth: 100 Gbps\n"
                                        "  adapters: {value: 4, source: my invoice}\n");
  System const system = load_system_file(file);
  System const base = load_system_file("selene-a100");
  REQUIRE(base.validated);
  REQUIRE_FALSE(system.validated);
  REQUIRE(system.name == "mine");
  REQUIRE(system.accelerator.memory.value == Bytes{std::int64_t{40} << 30});
  REQUIRE(system.accelerator.memory.source == "given in " + file);
  REQUIRE(system.network.bandwidth.value == BytesPerSecond{12.5e9});
  REQUIRE(system.network.adapters.value == 4);
  REQUIRE(system.network.adapters.source == "my invoice");
  REQUIRE(system.network.latency == base.network.latency);
  REQUIRE(system.calibration == base.calibration);
  REQUIRE(system.node == base.node);
}

TEST_CASE("a base may have a base, and a chain that does not end is refused", "[run]") {
  TemporaryFolder const folder;
  folder.write("a.yaml", "base: dgx-h100\nnetwork: {bandwidth: 10 GB/s}\n");
  System const system = load_system_file(
      folder.write("b.yaml", "base: a.yaml\nname: b\nnetwork: {efficiency: 0.9}\n"));
  REQUIRE(system.network.bandwidth.value == BytesPerSecond{10e9});
  REQUIRE(system.network.efficiency.value == 0.9);
  REQUIRE(system.accelerator.name == "NVIDIA H100-SXM5-80GB");
  REQUIRE_THROWS_WITH(load_system_file(folder.write("c.yaml", "base: c.yaml\n")),
                      Catch::Contains("base: found a chain of more than 8 bases"));
  REQUIRE_THROWS_WITH(
      load_system_file(folder.write("d.yaml", "base: dgx-h10\n")),
      Catch::Contains("base: found 'dgx-h10'") && Catch::Contains("did you mean 'dgx-h100'?"));
  REQUIRE_THROWS_WITH(load_system_file(folder.write("e.yaml", "base: [1]\n")),
                      Catch::Contains("base: found no name"));
}

TEST_CASE("what a device holds beside tensors is not inherited by another accelerator", "[run]") {
  TemporaryFolder const folder;
  REQUIRE(load_system_file("dgx-h100").device);
  REQUIRE(
      load_system_file(folder.write("n.yaml", "base: dgx-h100\nnetwork: {adapters: 4}\n")).device ==
      load_system_file("dgx-h100").device);
  REQUIRE_FALSE(load_system_file("mi300x").device);
  REQUIRE_FALSE(load_system_file("mi250x").device);
  REQUIRE_FALSE(load_system_file("gb200-nvl72").device);  // its base has lost it
}

TEST_CASE("rates that were measured on a network are not inherited by another one", "[run]") {
  TemporaryFolder const folder;
  REQUIRE_FALSE(load_system_file("aws-p5").network.bus_bandwidth.value.empty());
  System const slower =
      load_system_file(folder.write("s.yaml", "base: aws-p5\nnetwork: {bandwidth: 10 GB/s}\n"));
  REQUIRE(slower.network.bus_bandwidth.value.empty());
  REQUIRE(slower.network.gather_bandwidth.value.empty());
  System const narrower = load_system_file(folder.write(
      "n.yaml", "base: aws-p5\nnetwork: {topology: {nodes_per_unit: 8, oversubscription: 2}}\n"));
  REQUIRE(narrower.network.bus_bandwidth.value.empty());
  REQUIRE(narrower.network.bandwidth == load_system_file("aws-p5").network.bandwidth);
  // It is inherited, and --set changes a part of it.
  System const changed = load_system_file(folder.write("c.yaml", "base: n.yaml\n"));
  REQUIRE(changed.network.topology.value == narrower.network.topology.value);
  System const larger =
      load_system_file(folder.write("l.yaml", "base: aws-p5\naccelerator: {memory: 94 GB}\n"));
  REQUIRE(larger.network == load_system_file("aws-p5").network);
}

TEST_CASE("a run takes systems, stacks and models by name, and with changes in place", "[run]") {
  TemporaryFolder const folder;
  RunConfig const run =
      load_run_config(folder.write("run.yaml",
                                   "model: {base: gpt3-175b, sequence: 4096}\n"
                                   "system: {base: selene-a100, network: {bandwidth: 50 GB/s}}\n"
                                   "software: {base: nanotron, host: {kernel: 1 us}}\n"
                                   "batch: {global: 1}\nparallel: {tensor: 8, pipeline: 8}\n"),
                      {});
  REQUIRE(run.training.model.hidden == 12288);
  REQUIRE(run.training.model.sequence == 4096);
  REQUIRE(run.system.name == "selene-a100, changed");
  REQUIRE(run.system.network.bandwidth.value == BytesPerSecond{50e9});
  REQUIRE(run.system.software.name == "nanotron, changed");
  REQUIRE(run.system.software.host.kernel.value == Seconds{1e-6});
  REQUIRE(run.system.software.host.gemm == load_software_file("nanotron").host.gemm);
  // What is printed loads again.
  RunConfig const again = parse_run_config(to_yaml(run), "printed.yaml", {});
  REQUIRE(again.system == run.system);
}

TEST_CASE("every stack that comes along loads and has its file's name", "[run]") {
  int files = 0;
  auto const folder = std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/software";
  for (auto const& entry : std::filesystem::directory_iterator{folder}) {
    CAPTURE(entry.path());
    REQUIRE(load_software_file(entry.path()).name == entry.path().stem());
    REQUIRE(load_software_file(entry.path().stem()) == load_software_file(entry.path()));
    ++files;
  }
  REQUIRE(files >= 5);
  Software const checked = load_software_file("nanotron-checked");
  Software const plain = load_software_file("nanotron");
  REQUIRE(checked.kernels == plain.kernels);
  REQUIRE(plain.host.collective_per_rank.source.empty());
  REQUIRE(checked.host.collective_per_rank.value.value > 0);
}

TEST_CASE("a system is validated only if measurements of this very machine stand behind it",
          "[run]") {
  // configs/systems/README or experiments/validation: Selene, AWS p5, vTrain's nodes.
  auto const folder = std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/systems";
  for (auto const& entry : std::filesystem::directory_iterator{folder}) {
    if (entry.path().extension() != ".yaml") continue;
    std::string const name = entry.path().stem();
    CAPTURE(name);
    bool const was_measured = name == "selene-a100" || name == "aws-p5" || name == "a100-4hdr";
    REQUIRE(load_system_file(name).validated == was_measured);
  }
}

}  // namespace
}  // namespace stagecraft::base_file_test
