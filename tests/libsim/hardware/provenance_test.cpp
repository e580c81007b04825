#include "libsim/hardware/provenance.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "libsim/hardware/compared_runs.hpp"
#include "libsim/hardware/key_texts.hpp"
#include "libsim/hardware/system_reader.hpp"

namespace stagecraft::provenance_test {
namespace {

std::vector<ConstantRow> rows_of(std::string const& name) {
  Diagnostics diagnostics;
  std::string const file =
      std::string{STAGECRAFT_SOURCE_DIR} + "/configs/systems/" + name + ".yaml";
  auto const root = parse_yaml_file(file, Place{}, "", diagnostics);
  System const system = read_system(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return list_constants(system);
}

ConstantRow row(std::vector<ConstantRow> const& rows, std::string const& key) {
  auto const found =
      std::find_if(rows.begin(), rows.end(), [&](ConstantRow const& r) { return r.key == key; });
  REQUIRE(found != rows.end());
  return *found;
}

TEST_CASE("every constant is listed with its value, unit and source", "[hardware]") {
  auto const rows = rows_of("selene-a100");
  // 5 peaks, 4 more of the accelerator, 2 of its link to the host; 1 count, a latency and a
  // bandwidth, a file of tables, the host's memory; 3 of the network; 13 of the calibration; 8 of
  // what else is on a device.
  REQUIRE(rows.size() == 5 + 4 + 2 + 1 + 2 + 1 + 1 + 3 + 13 + 8);
  REQUIRE(row(rows, "accelerator.peak.fp16").value == "312");
  REQUIRE(row(rows, "accelerator.peak.fp16").unit == "TFLOP/s");
  REQUIRE(row(rows, "accelerator.multiprocessors").unit.empty());
  REQUIRE(row(rows, "node.p2p.bandwidth").value == "300");
  REQUIRE(row(rows, "node.collectives").value == "vtrain-a100-all-reduce.csv");
  REQUIRE(row(rows, "calibration.kernel_launch").unit == "us");
  for (ConstantRow const& r : rows) REQUIRE_FALSE(r.source.empty());
}

TEST_CASE("at most two constants of selene-a100 are fitted on the paper's table 4", "[hardware]") {
  auto const rows = rows_of("selene-a100");
  REQUIRE(std::count_if(rows.begin(), rows.end(), [](ConstantRow const& r) {
            return r.fitted.find("table 4") != std::string::npos;
          }) <= 2);
  REQUIRE(std::none_of(rows.begin(), rows.end(), [](ConstantRow const& r) {
    return r.fitted.find("table 5") != std::string::npos;
  }));
}

TEST_CASE("every system of the data sets of experiments/validation is known as compared",
          "[hardware]") {
  for (std::string const name :
       {"a100-4hdr", "aws-p5", "b200-hgx", "dgx-h100", "jean-zay-a100", "selene-a100"}) {
    CAPTURE(name);
    REQUIRE(is_compared(name));
  }
  REQUIRE_FALSE(is_compared("h200"));
}

/// A run of a model in bf16 with sequences of 4096 on 64 GPUs.
TrainingConfig training(bool has_experts, int context = 1) {
  TrainingConfig config;
  config.model.precision = Precision::bf16;
  config.model.sequence = context > 1 ? 8192 : 4096;
  if (has_experts) config.model.experts.emplace();
  config.parallel.context = context;
  config.parallel.data = 64 / context;
  return config;
}

System named_system(std::string const& name) {
  System system;
  system.name = name;
  system.software.name = "megatron-core";
  return system;
}

TEST_CASE("the runs that predictions were compared with are counted by regime", "[hardware]") {
  // The timed rows of experiments/validation/data on a DGX H100: 24 of published.csv, 28 of
  // published-context.csv, 17 of published-moe.csv.
  System system = named_system("dgx-h100");
  REQUIRE(compared_runs_of(training(false), system)->runs == 24);
  REQUIRE(compared_runs_of(training(false, 2), system)->runs == 28);
  REQUIRE(compared_runs_of(training(true), system)->runs == 17);
  REQUIRE(compared_runs_of(training(true, 2), system) == nullptr);
  // All of these ran with Megatron-Core.
  system.software.name = "megatron-2022";
  REQUIRE(compared_runs_of(training(false), system) == nullptr);
}

TEST_CASE(
    "a system of guesses on which runs were measured says how far off predictions of the "
    "same regime were",
    "[hardware]") {
  System const system = named_system("dgx-h100");
  std::string const guesses =
      "system 'dgx-h100' is not validated: its constants are public numbers and guesses";
  std::string const dense = validation_warning(training(false), system).value();
  REQUIRE_THAT(dense, Catch::StartsWith(guesses));
  REQUIRE_THAT(dense, Catch::Contains("on 24 measured runs of dense models in bf16 with the stack "
                                      "'megatron-core' its predictions were off by "));
  // The median of the 17 rows of experiments/validation/experts.md on a DGX H100: the ninth of
  // their sizes.
  REQUIRE_THAT(validation_warning(training(true), system).value(),
               Catch::EndsWith("on 17 measured runs of mixtures of experts in bf16 with the stack "
                               "'megatron-core' its predictions were off by 18.8 % in the median, "
                               "mostly too short"));
  REQUIRE_THAT(validation_warning(training(true), named_system("h200")).value(),
               Catch::Contains("that no measurement was held against"));
}

TEST_CASE("no accuracy is quoted for a regime or a length of which no run was measured",
          "[hardware]") {
  System const system = named_system("dgx-h100");
  REQUIRE_THAT(validation_warning(training(true, 2), system).value(),
               Catch::EndsWith("; no run of mixtures of experts with context parallelism in bf16 "
                               "with the stack 'megatron-core' was measured on it"));
  TrainingConfig half = training(false);
  half.model.precision = Precision::fp16;
  REQUIRE_THAT(
      validation_warning(half, system).value(),
      Catch::EndsWith("; no run of dense models in fp16 with the stack 'megatron-core' was "
                      "measured on it"));
  TrainingConfig longer = training(false);
  longer.model.sequence = 131072;
  REQUIRE_THAT(validation_warning(longer, system).value(),
               Catch::EndsWith("; no run of dense models in bf16 with the stack 'megatron-core' "
                               "was measured on it with "
                               "model.sequence 131072 (measured on dgx-h100: 4096)"));
  TrainingConfig larger = training(false);
  larger.parallel.data = 4096;
  REQUIRE_THAT(validation_warning(larger, system).value(),
               Catch::EndsWith("with 4096 GPUs (measured on dgx-h100: up to 2048)"));
}

TEST_CASE("only a system of guesses is said to be one, not a validated or a measured one",
          "[hardware]") {
  System system;
  system.name = "x";
  REQUIRE(
      validation_warning(training(false), system).value().find("system 'x' is not validated: ") ==
      0);
  system.measured.emplace();  // as `stagecraft-exec calibrate` leaves it
  REQUIRE_FALSE(validation_warning(training(false), system).has_value());
  system.measured.reset();
  system.validated = true;
  REQUIRE_FALSE(validation_warning(training(false), system).has_value());
}

TEST_CASE("the sources of a system that nobody measured say so", "[hardware]") {
  for (ConstantRow const& r : rows_of("dgx-h100")) {
    CAPTURE(r.key);
    bool const says_so = r.source.find("ot validated") != std::string::npos;
    bool const is_certain = r.key == "node.accelerators" ||
                            r.key == "accelerator.compute_capability" ||
                            r.key == "node.host_speed" ||  // fitted to runs on it, as the next
                            r.key == "node.host_adam";
    REQUIRE((says_so || is_certain));
  }
}

TEST_CASE("every key that a system or software file can have is explained, in its order",
          "[hardware]") {
  auto const is_listed = [](std::span<KeyText const> keys, std::string const& key) {
    return std::ranges::any_of(keys, [&](KeyText const& text) { return text.key == key; });
  };
  // The files that give most: their constants are a subset of the keys, as are all keys of a
  // system that is made up to have every one.
  auto const owner = std::make_unique<System>();  // GCC 12 warns of one on the stack
  System& system = *owner;
  system.measured.emplace();
  system.device.emplace();
  for (auto* const given : {&system.node.bus_bandwidth.source,
                            &system.network.adapters.source,
                            &system.network.topology.source,
                            &system.network.bus_bandwidth.source,
                            &system.network.gather_bandwidth.source,
                            &system.node.all_reduce.source,
                            &system.node.all_gather.source,
                            &system.node.reduce_scatter.source,
                            &system.accelerator.compute_capability.source,
                            &system.node.collectives.source,
                            &system.node.host_speed.source,
                            &system.network.collectives.source,
                            &system.node.host_memory.source,
                            &system.node.host_adam.source,
                            &system.accelerator.host_link.source,
                            &system.calibration.low_gemm_efficiency.source,
                            &system.calibration.fp4_gemm_efficiency.source,
                            &system.calibration.latent_flash_forward_efficiency.source,
                            &system.calibration.latent_flash_backward_efficiency.source,
                            &system.calibration.quantise_efficiency.source}) {
    *given = "x";
  }
  std::size_t keys = 0;
  nlohmann::ordered_json const written = to_json(system);
  for (auto const& [section, map] : written.items()) {
    if (section == "measured" || !map.is_object()) {
      REQUIRE(is_listed(system_keys(), section));
      ++keys;
      continue;
    }
    for (auto const& [key, value] : map.items()) {
      CAPTURE(section, key);
      REQUIRE(is_listed(system_keys(), section + "." + key));
      ++keys;
    }
  }
  REQUIRE(system_keys().size() == keys + 1);  // and base, which no system has once it is read
  // A stack whose sections have every key is refused another, and the message lists them.
  Diagnostics diagnostics;
  auto const root = parse_yaml(
      "{name: x, host: {z: 1}, kernels: {z: 1}, replicas: {z: 1}, tensor: {z: 1}, "
      "memory: {z: 1}, communicators: {z: 1}}",
      "s.yaml", diagnostics);
  read_software(ConfigNode{*root, "", diagnostics});
  std::set<std::string> accepted{"base", "name", "factor"};
  for (Problem const& problem : diagnostics.problems()) {
    std::string const section = problem.key.substr(0, problem.key.find('.'));
    std::istringstream words{problem.accepted};
    for (std::string word; std::getline(words, word, ',');) {
      accepted.insert(section + "." + word.substr(word.find_first_not_of(' ')));
    }
  }
  std::set<std::string> listed;
  for (KeyText const& text : software_keys()) listed.insert(std::string{text.key});
  REQUIRE(listed == accepted);
}

TEST_CASE("constants that a user gave are named with where, and make a system not validated",
          "[hardware]") {
  System system;
  system.name = "x";
  system.validated = true;
  system.software.name = "y";
  system.network.bandwidth.source = "given in mine.yaml";
  system.software.host.kernel.source = "given in --set software.host.kernel=1 us";
  REQUIRE(given_constants(system) ==
          std::vector<std::string>{"network.bandwidth (given in mine.yaml)"});
  REQUIRE(validation_warning(training(false), system).value() ==
          "system 'x' with the stack 'y' is not validated: no measurement was held against "
          "network.bandwidth (given in mine.yaml), software.host.kernel (given in --set "
          "software.host.kernel=1 us)");
}

TEST_CASE("what a calibration assumed is found by its source", "[hardware]") {
  System system;
  system.node.p2p.source = "stagecraft-exec calibrate";
  system.node.all_reduce.source = std::string{assumed_source} + "h200: a data sheet";
  system.calibration.network_slowdown.source = std::string{assumed_source} + "h200: a guess";
  REQUIRE(assumed_constants(system) ==
          std::vector<std::string>{"node.all_reduce", "calibration.network_slowdown"});
}

}  // namespace
}  // namespace stagecraft::provenance_test
