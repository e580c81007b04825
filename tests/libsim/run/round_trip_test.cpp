#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "libsim/run/config_files.hpp"

namespace stagecraft::round_trip_test {
namespace {

std::filesystem::path const paper =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper";

/// What is printed is what was decided, also where that was left to the stack.
TrainingConfig settled(RunConfig const& config) { return settled_with_stack(config.training); }

void require_round_trip(RunConfig const& config) {
  std::string const text = to_yaml(config);
  CAPTURE(text);
  RunConfig const again = parse_run_config(text, "/nowhere/else.yaml", {});
  REQUIRE(settled(again) == settled(config));
  REQUIRE(again.system == config.system);
  REQUIRE(again.warnings.empty());
  REQUIRE(to_yaml(again) == text);
  RunConfig const from_json = parse_run_config(to_json(config).dump(), "/nowhere/else.json", {});
  REQUIRE(settled(from_json) == settled(config));
  REQUIRE(from_json.system == config.system);
}

TEST_CASE("the printed configuration loads elsewhere to the same run and prints the same bytes",
          "[run]") {
  for (auto const& entry : std::filesystem::directory_iterator{paper}) {
    CAPTURE(entry.path());
    require_round_trip(load_run_config(entry.path(), {}));
  }
}

TEST_CASE("settings that the paper does not use survive printing too", "[run]") {
  std::string const setting = GENERATE(
      "schedule={kind: interleaved, group: 28, p2p: overlapped, scatter_gather: false}",
      "recompute={granularity: full, method: block, layers: 2, store_microbatches: 3}",
      "recompute={granularity: selective, modules: [layernorm, mlp], store_microbatches: 3}",
      "recompute={granularity: full, for_weights: again}",
      "recompute={per_stage: [full, full, selective, none, none, none, none, none]}",
      "memory={output_deallocation: false, distributed_optimizer: true, reserve: 1.5 GiB}",
      "layout={first: 15, last: 9}", "layout={first: 12}", "layout=[9, 12, 12, 12, 12, 15, 15, 9]",
      "layout=[3,4,4,4,4,4,4,4, 4,4,4,4,4,4,4,4, 4,4,4,4,4,4,4,5]", "model.dropout=0.15",
      "model.dropout=0", "system.accelerator.name='no: \"plain\" text, #1 {x}'",
      "system.name=\"8\"",
      "system.network.efficiency={value: 0.9, source: \"line\\nbreak\\t\\x01 \\u2028 "
      "\\U0001F600\", fitted: \"4\"}",
      "system.node.p2p={value: {latency: 1.37 us, bandwidth: 1 GiB/s}, source: 'true'}");
  CAPTURE(setting);
  require_round_trip(load_run_config(paper / "175b-present.yaml", {setting}));
}

TEST_CASE("the printed configuration has every section, with model and system in place", "[run]") {
  auto const json = to_json(load_run_config(paper / "175b-present.yaml", {}));
  std::vector<std::string> keys;
  for (auto const& [key, value] : json.items()) keys.push_back(key);
  REQUIRE(keys == std::vector<std::string>{"model", "system", "software", "parallel", "batch",
                                           "schedule", "recompute", "routing", "dispatch",
                                           "deterministic", "tf32", "low_precision", "sharding",
                                           "offload", "memory", "layout", "training"});
  REQUIRE(json["model"]["layers"] == 96);
  REQUIRE(json["system"]["accelerator"]["memory"]["value"] == "80 GiB");
  REQUIRE(json["sharding"] == "none");
  REQUIRE(json["memory"]["distributed_optimizer"] == false);
  REQUIRE_FALSE(json["memory"].contains("reserve"));
  auto const with_reserve = load_run_config(paper / "175b-present.yaml", {"memory.reserve=3 GiB"});
  REQUIRE(to_json(with_reserve)["memory"]["reserve"] == "3 GiB");
}

TEST_CASE("an override of sharding, or of its short form, goes before both in a printed run",
          "[run]") {
  std::string const setting =
      GENERATE("sharding=distributed_optimizer", "memory.distributed_optimizer=true");
  std::string const back = GENERATE("sharding=none", "memory.distributed_optimizer=false");
  RunConfig const given = load_run_config(paper / "175b-present.yaml", {"parallel.data=2"});
  RunConfig const shared = parse_run_config(to_yaml(given), paper / "x.yaml", {setting});
  REQUIRE(shared.training.sharding.shares_optimizer());
  auto const json = to_json(shared);
  REQUIRE(json["sharding"] == "distributed_optimizer");
  REQUIRE(json["memory"]["distributed_optimizer"] == true);
  RunConfig const again = parse_run_config(to_yaml(shared), paper / "x.yaml", {back});
  REQUIRE(settled(again) == settled(given));
}

}  // namespace
}  // namespace stagecraft::round_trip_test
