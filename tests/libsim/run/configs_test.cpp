#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "libsim/hardware/software.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::configs_test {
namespace {

std::filesystem::path const configs = std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs";

std::vector<std::filesystem::path> yaml_files(std::string const& folder) {
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator{configs / folder}) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

TEST_CASE("every run of configs/paper loads without a warning", "[run]") {
  auto const files = yaml_files("paper");
  REQUIRE(files.size() >= 10);
  for (auto const& file : files) {
    CAPTURE(file);
    REQUIRE(load_run_config(file, {}).warnings.empty());
  }
}

TEST_CASE("every run of configs/examples loads", "[run]") {
  for (auto const& file : yaml_files("examples")) {
    CAPTURE(file);
    REQUIRE_NOTHROW(load_run_config(file, {}));
  }
  // What the README has a process each for.
  REQUIRE(world_size(load_run_config(configs / "examples/eight.yaml", {}).training.parallel) == 8);
}

TEST_CASE("every model and every system file loads", "[run]") {
  for (auto const& file : yaml_files("models")) {
    CAPTURE(file);
    REQUIRE_NOTHROW(load_model_file(file));
  }
  for (auto const& file : yaml_files("systems")) {
    CAPTURE(file);
    REQUIRE(load_system_file(file).name == file.stem());
  }
}

TEST_CASE("configs/paper holds table 3 of the paper", "[run]") {
  // Korthikanti et al. 2022, table 3: a, h, L, p, GPUs, global batch, microbatch; m = 3 where
  // named.
  using Row = std::tuple<std::string, int, int, int, int, int, int, int, int>;
  auto const [name, a, h, layers, p, m, gpus, global, micro] =
      GENERATE(table<std::string, int, int, int, int, int, int, int, int>(
          {Row{"22b", 64, 6144, 48, 1, 1, 8, 4, 4}, Row{"175b", 96, 12288, 96, 8, 3, 64, 64, 1},
           Row{"530b", 128, 20480, 105, 35, 3, 280, 280, 1},
           Row{"1t", 160, 25600, 128, 64, 1, 512, 512, 1}}));
  std::string const suffix = GENERATE("full", "present");
  CAPTURE(name, suffix);
  TrainingConfig const config =
      load_run_config(configs / "paper" / (name + "-" + suffix + ".yaml"), {}).training;
  bool const is_present = suffix == "present";
  REQUIRE(config.model.heads == a);
  REQUIRE(config.model.hidden == h);
  REQUIRE(config.model.layers == layers);
  REQUIRE(config.model.sequence == 2048);
  REQUIRE(config.model.vocabulary == 51200);
  REQUIRE(config.parallel.pipeline == p);
  REQUIRE(config.parallel.interleave == m);
  REQUIRE(config.parallel.sequence == is_present);
  REQUIRE(world_size(config.parallel) == gpus);
  REQUIRE(config.batch == BatchConfig{global, micro});
  REQUIRE(config.schedule.kind == (m > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b));
  REQUIRE(config.recompute.size() == 1);
  REQUIRE(config.recompute.front().granularity ==
          (is_present ? RecomputeGranularity::selective : RecomputeGranularity::full));
}

TEST_CASE("the paper's defaults hold in a run that sets none of them", "[run]") {
  TrainingConfig const config =
      load_run_config(configs / "paper" / "175b-present.yaml", {}).training;
  ModelConfig const& model = config.model;
  REQUIRE(model.kv_heads == 96);
  REQUIRE(model.head_dim == 128);
  REQUIRE(model.ffn_hidden == 49152);
  REQUIRE(model.vocabulary_multiple == 128);
  REQUIRE(model.activation == Activation::gelu);
  REQUIRE(model.norm == Norm::layernorm);
  REQUIRE(model.positions == Positions::learned);
  REQUIRE(model.tied_embeddings);
  REQUIRE(model.dropout == 0.1);
  REQUIRE(model.biases);
  REQUIRE(model.attention == Attention::unfused);
  REQUIRE(model.dropout_mask == DropoutMask::stored);
  REQUIRE(model.causal_mask == CausalMask::per_microbatch);
  REQUIRE(model.precision == Precision::fp16);
  REQUIRE_FALSE(overlaps_gradients(config));
  REQUIRE(config.schedule.group == 8);
  REQUIRE(config.schedule.p2p == P2p::blocking);
  REQUIRE(config.schedule.scatter_gather);
  REQUIRE(config.recompute.front().modules == std::vector<std::string>{"core_attention"});
  REQUIRE(config.memory.output_deallocation);
  REQUIRE_FALSE(config.sharding.shares_optimizer());
  REQUIRE(config.memory.kept_in_reserve() == Bytes{std::int64_t{2} << 30});
  REQUIRE(config.layout.kind == LayerSplit::Kind::even);
}

TEST_CASE("530B on 2240 GPUs keeps the batch of each of its 8 replicas", "[run]") {
  std::string const suffix = GENERATE("full", "present");
  auto const config =
      load_run_config(configs / "paper" / ("530b-" + suffix + "-2240.yaml"), {}).training;
  REQUIRE(world_size(config.parallel) == 2240);
  REQUIRE(microbatches(config) == 280);
}

TEST_CASE("a run names its software stack, which settles what the run leaves open", "[run]") {
  auto const file = configs / "paper/175b-present.yaml";
  auto const with = [&](std::vector<std::string> const& settings) {
    return load_run_config(file, settings);
  };
  REQUIRE(with({}).system.software.name == "megatron-2022");
  REQUIRE_FALSE(overlaps_gradients(with({}).training));
  // The same times, and what the framework allocates.
  Software const described = with({"software=megatron-2022-memory"}).system.software;
  REQUIRE(described.host == with({}).system.software.host);
  REQUIRE(decides_by_allocator(described));
  // nanotron's DDP reduces buckets of 50 MB in fp32 behind the last backward, but not with ZeRO.
  TrainingConfig overlapped = with({"software=nanotron"}).training;
  REQUIRE(overlaps_gradients(overlapped));
  REQUIRE(bucket_elements(overlapped) == 12'500'000);
  // It is decided where a plan is made: a search that shards the optimizer changes it.
  overlapped.sharding = sharding_of(true);
  REQUIRE_FALSE(overlaps_gradients(overlapped));
  REQUIRE_FALSE(overlaps_gradients(
      with({"software=nanotron", "memory.distributed_optimizer=true"}).training));
  REQUIRE_FALSE(
      overlaps_gradients(with({"software=nanotron", "parallel.overlap_gradients=false"}).training));
  RunConfig const changed = with({"software=nanotron", "software.host.kernel=10 us"});
  REQUIRE(changed.system.software.host.kernel.value == Seconds{10e-6});
  REQUIRE(changed.system.software.host.gemm == load_software_file("nanotron").host.gemm);
  REQUIRE_THROWS(with({"software=nanotrom"}));
}

}  // namespace
}  // namespace stagecraft::configs_test
