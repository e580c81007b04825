#include "libsim/import/megatron/megatron_flags.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/import/pipeline_layout.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/training/training_config_checks.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/import/megatron_round_trip.hpp"
#include "tests/libsim/odd_runs.hpp"
#include "tests/libsim/sharded_runs.hpp"

namespace stagecraft::megatron_flags_test {
namespace {

TEST_CASE("the flags of the paper's runs read back to the same runs", "[import]") {
  std::filesystem::path const paper =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper";
  int runs = 0;
  for (auto const& entry : std::filesystem::directory_iterator{paper}) {
    CAPTURE(entry.path());
    TrainingConfig const config = load_run_config(entry.path(), {}).training;
    require_round_trip(config);
    // Messages are cut over the tensor group where there is no sequence parallelism; the paper says
    // so, Megatron-LM has given it up.
    bool const scatters = !config.parallel.sequence && config.parallel.pipeline > 1;
    REQUIRE(megatron_gaps(config).size() == (scatters ? 1 : 0));
    ++runs;
  }
  REQUIRE(runs == 14);
}

TEST_CASE("the flags of split sequences read back", "[import]") {
  TrainingConfig config = odd_runs().front().config;
  config.model.attention = Attention::flash;
  config.model.attention_dropout = 0;
  config.parallel.context = 4;
  std::size_t const without = megatron_gaps(config).size();
  auto const flags = [&] { return megatron_flags(config); };
  REQUIRE_THAT(flags(), Catch::Contains("--context-parallel-size 4"));
  REQUIRE_THAT(flags(), !Catch::Contains("--cp-comm-type"));
  require_round_trip(config);
  config.parallel.context_method = ContextMethod::all_gather;
  REQUIRE_THAT(flags(), Catch::Contains("--cp-comm-type all_gather"));
  require_round_trip(config);
  config.parallel.context_method = ContextMethod::ring;
  config.parallel.context_inner = 2;
  REQUIRE_THAT(flags(), Catch::Contains("--cp-comm-type a2a+p2p"));
  REQUIRE_THAT(flags(), Catch::Contains("--hierarchical-context-parallel-sizes 2 2"));
  require_round_trip(config);
  REQUIRE(megatron_gaps(config).size() == without);
  config.parallel.context_inner = 1;
  config.parallel.context_method = ContextMethod::ulysses;
  require_round_trip(config);
  REQUIRE(megatron_gaps(config).size() == without + 1);
  config.parallel.context_method = ContextMethod::contiguous_ring;
  REQUIRE_THAT(flags(), !Catch::Contains("--cp-comm-type"));
  REQUIRE(megatron_gaps(config).size() == without + 1);
}

TEST_CASE("flags do not say products in TF32", "[import]") {
  // Megatron-LM's arguments.py has no such flag; PyTorch computes in fp32 unless it is told.
  TrainingConfig config = odd_runs().front().config;
  std::size_t const without = megatron_gaps(config).size();
  config.tf32 = true;
  std::vector<std::string> const gaps = megatron_gaps(config);
  REQUIRE(gaps.size() == without + 1);
  REQUIRE(std::ranges::count(gaps, "tf32 true: Megatron-LM has no flag for it") == 1);
}

TEST_CASE("the flags of runs on an edge of what is legal read back", "[import]") {
  for (OddRun const& run : odd_runs()) {
    CAPTURE(run.name);
    require_round_trip(run.config);
  }
}

TEST_CASE("the flags of Megatron-FSDP read back", "[import]") {
  int checked = 0;
  for (OddRun const& run : sharded_runs()) {
    if (run.config.sharding.kind != ShardingKind::megatron_fsdp) continue;
    CAPTURE(run.name);
    require_round_trip(run.config);
    ++checked;
  }
  REQUIRE(checked == 4);
}

TEST_CASE("the flag of layers that the host has reads back", "[import]") {
  TrainingConfig config = run_of(table3_rows[0], RecomputeGranularity::none, true);
  config.parallel.pipeline = 1;
  config.offload.activations.layers = 5;
  REQUIRE(megatron_flags(config).find("--cpu-offloading-num-layers 5") != std::string::npos);
  config.offload.activations = {.fraction = 0.5};
  config.offload.activations.modules.insert(OffloadModule::moe_act);
  config.offload.activations.modules.insert(OffloadModule::expert_fc1);
  REQUIRE(megatron_flags(config).find("--fine-grained-activation-offloading --offload-modules "
                                      "expert_fc1 moe_act --activation-offload-fraction 0.5") !=
          std::string::npos);
  require_round_trip(config);
}

TEST_CASE("the flag --empty-unused-memory-level says when the cache is emptied", "[import]") {
  TrainingConfig config = run_of(table3_rows[1], RecomputeGranularity::selective, true);
  config.memory.empty_cache = EmptyCache::around_step;
  REQUIRE(megatron_flags(config).find("--empty-unused-memory-level 2") != std::string::npos);
  require_round_trip(config);
}

TEST_CASE("the flags of random runs read back, but for what is listed as a gap", "[import]") {
  int checked = 0, without_gaps = 0;
  for (std::uint32_t seed = 0; seed < 1500; ++seed) {
    TrainingConfig config = RandomRuns{seed}.config(4);
    if (seed % 3 == 0) {
      config.model.activation = Activation::swiglu;
      config.model.positions = Positions::rotary;
      config.model.rotary_base = 500000;
      config.model.rotary_fraction = seed % 2 == 0 ? 1 : 0.5;
      config.model.rotary_scaling = seed % 4 == 0 ? 1 : 8;
      config.model.norm = Norm::rmsnorm;
      config.model.biases = false;
      config.model.qkv_bias = seed % 2 == 0;
    }
    if (seed % 3 == 0 && seed % 4 == 1) config.model.qk_norm = QkNorm::head;
    if (seed % 3 == 0 && seed % 4 == 3) {
      ModelConfig& model = config.model;
      model.qkv_bias = false;
      model.kv_heads = model.heads;
      model.latent_attention = {.query_rank = seed % 2 == 0 ? 0 : 24,
                                .key_rank = 16,
                                .nope_dim = 8,
                                .rope_dim = 4,
                                .value_dim = 10};
      model.head_dim = 12;
    }
    if (seed % 5 == 0) config.model.position_rows = config.model.sequence + 2;
    if (config.model.positions == Positions::rotary) config.model.position_rows.reset();
    if (seed % 7 == 0) config.model.attention_dropout = 0.25;
    // Without effect, hence not said by any flag.
    bool const has_groups = config.parallel.tensor > 1;
    config.parallel.sequence = config.parallel.sequence && has_groups;
    if (config.parallel.sequence || !has_groups || config.parallel.pipeline == 1) {
      config.schedule.scatter_gather = true;
    }
    config.training.learning_rate = 1e-4 + seed * 1e-7;
    config.training.seed = seed;
    if (!problems_of(as_megatron_has_it(config)).empty()) continue;
    CAPTURE(seed);
    require_round_trip(config);
    ++checked;
    if (megatron_gaps(config).empty()) ++without_gaps;
  }
  REQUIRE(checked > 500);
  REQUIRE(without_gaps > 20);
}

TEST_CASE("the flags of 175B with sequence parallelism are those that one would type", "[import]") {
  REQUIRE(megatron_flags(run_of(table3_rows[1], RecomputeGranularity::selective, true)) ==
          "--num-layers 96 --hidden-size 12288 --ffn-hidden-size 49152 --num-attention-heads 96 "
          "--seq-length 2048 --max-position-embeddings 2048 --position-embedding-type "
          "learned_absolute --tokenizer-type NullTokenizer --vocab-size 51199 "
          "--make-vocab-size-divisible-by 128 --normalization LayerNorm --norm-epsilon 1e-05 "
          "--hidden-dropout 0.1 --attention-dropout 0.1 --attention-backend unfused --fp16 "
          "--accumulate-allreduce-grads-in-fp32 --tensor-model-parallel-size 8 "
          "--pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 3 "
          "--no-overlap-p2p-communication --sequence-parallel --micro-batch-size 1 "
          "--global-batch-size 64 --recompute-granularity selective --recompute-modules core_attn "
          "--seed 1234 --init-method-std 0.02 --lr 0.00015 --adam-beta1 0.9 --adam-beta2 0.95 "
          "--adam-eps 1e-08 --weight-decay 0.1 --clip-grad 1 --initial-loss-scale 65536");
}

TEST_CASE("what Megatron-LM has no flags for is listed", "[import]") {
  auto const gaps_of = [](auto change) {
    TrainingConfig config = modest_run(1, 4);
    change(config);
    return megatron_gaps(config);
  };
  using C = TrainingConfig;
  REQUIRE(gaps_of([](C&) {}).empty());
  REQUIRE(gaps_of([](C& c) { c.schedule.kind = ScheduleKind::gpipe; }).size() == 1);
  REQUIRE(gaps_of([](C& c) { c.schedule.p2p = P2p::overlapped; }).size() == 1);
  REQUIRE(gaps_of([](C& c) { c.model.residual = Residual::parallel; }).size() == 1);
  REQUIRE(gaps_of([](C& c) { c.model.activation = Activation::relu; }).size() == 1);
  REQUIRE(gaps_of([](C& c) { c.model.precision = Precision::fp64; }).size() == 1);
  REQUIRE(gaps_of([](C& c) { c.memory.output_deallocation = false; }).size() == 1);
  REQUIRE(gaps_of([](C& c) { c.recompute.resize(4); }).size() == 1);
  REQUIRE(gaps_of([](C& c) { c.parallel.tensor = 2; }).size() == 1);
}

TEST_CASE("a pipeline layout says the layers of each virtual stage", "[import]") {
  using Layers = std::vector<std::int64_t>;
  // The example of Megatron-LM's documentation: 61 layers on 16 stages of 2 chunks.
  auto const deepseek = parse_pipeline_layout("Et*3|(tt|)*29,L");
  REQUIRE(deepseek.has_value());
  REQUIRE(deepseek->size() == 31);
  REQUIRE(deepseek->front() == 3);
  REQUIRE(deepseek->back() == 0);
  REQUIRE(parse_pipeline_layout("E|t|t*2|L") == Layers{0, 1, 2, 0});
  REQUIRE(parse_pipeline_layout("EttL") == Layers{2});
  REQUIRE(parse_pipeline_layout("Et|(tt|)*2mL", 1) == Layers{1, 2, 2, 0});
  REQUIRE(!parse_pipeline_layout("Et|mt|L", 1));
  REQUIRE(!parse_pipeline_layout("Et|t|mL"));
  REQUIRE(pipeline_layout({1, 2}, 1) == "Et|t*2mL");
  REQUIRE(parse_pipeline_layout("E((t|)*2t|)*2L") == Layers{1, 1, 1, 1, 1, 1, 0});
  for (char const* const bad : {"", "E", "tt", "Et|tmL", "LtE", "Et|EtL", "E(t|L", "Et)L", "Et*L",
                                "Et*999999999999L", "E((((t*999)*999)*999)*999)L"}) {
    CAPTURE(bad);
    REQUIRE(!parse_pipeline_layout(bad));
  }
  for (Layers const& layers : {Layers{4, 4}, Layers{0, 1, 3, 0}, Layers{5}}) {
    REQUIRE(parse_pipeline_layout(pipeline_layout(layers)) == layers);
  }
}

}  // namespace
}  // namespace stagecraft::megatron_flags_test
