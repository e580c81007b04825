#include <catch2/catch.hpp>

#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "libsim/modules/blocks.hpp"
#include "tests/libsim/import/import_fixtures.hpp"
#include "tests/libsim/import/import_notes.hpp"

// Launch scripts as their projects publish them, their flags typed in
// (tests/libsim/import/scripts); each expectation is what the flags say.

namespace stagecraft::megatron_script_test {
namespace {

MegatronImport import_script(std::string const& name,
                             std::vector<std::string> const& more = {},
                             MegatronOptions options = {}) {
  Diagnostics diagnostics;
  LaunchCommand launch =
      read_launch_script(text_of_file(fixtures / "scripts" / name), name, {}, diagnostics);
  diagnostics.throw_if_any();
  for (std::string const& word : more) launch.arguments.push_back({word, 0, 0});
  if (!options.world_size) options.world_size = launch.world_size;
  return import_megatron(launch.arguments, name, options);
}

MegatronOptions ignoring(std::vector<std::string> names) {
  MegatronOptions options;
  options.ignore = std::move(names);
  options.strictness = Strictness::strict;
  return options;
}

ModelConfig gpt3(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t s) {
  ModelConfig model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.sequence = s;
  model.vocabulary = 50257;
  model.ffn_hidden = 4 * hidden;
  return model;
}

TEST_CASE("train_gpt3_175b_distributed.sh of today: fused attention, 128 ranks", "[import]") {
  MegatronImport const import = import_script("train_gpt3_175b_distributed.sh");
  TrainingConfig expected;
  expected.model = gpt3(96, 12288, 96, 2048);
  expected.model.attention = Attention::flash;
  expected.parallel = {.tensor = 8, .pipeline = 16, .data = 1};
  expected.batch = {.global = 1536, .micro = 1};
  expected.schedule.scatter_gather = false;
  expected.training.init_std = 0.006;
  expected.training.learning_rate = 6e-5;
  expected.training.loss_scale = 0x1p32;
  expected.memory.gradient_dtype = StateType::fp16;  // only bf16 has main gradients of 32 bits
  REQUIRE(import.config == expected);
  REQUIRE(has_note(import.notes, "--rampup-batch-size: the largest batch"));
  // 175B counts 12Lh^2 + 13Lh + (v + s)h + 2h with v = 50257.
  REQUIRE(parameter_count(import.config.model) == 174'604'259'328);
}

TEST_CASE(
    "train_llama3_8b_h100_fp8.sh is imported with the recipe that Megatron-LM takes by default",
    "[import]") {
  std::vector<std::string> const refused{"cross-entropy-loss-fusion", "overlap-param-gather"};
  try {
    import_script("train_llama3_8b_h100_fp8.sh", {}, ignoring({}));
    FAIL("imported");
  } catch (ConfigError const& error) {
    REQUIRE(error.problems().size() == refused.size());
    for (std::size_t i = 0; i < refused.size(); ++i) {
      REQUIRE(error.problems()[i].key == "--" + refused[i]);
      REQUIRE(error.problems()[i].place.line > 0);
    }
  }
  MegatronImport const import = import_script("train_llama3_8b_h100_fp8.sh", {}, ignoring(refused));
  TrainingConfig expected;
  expected.model = gpt3(32, 4096, 32, 8192);
  expected.model.kv_heads = 8;
  expected.model.vocabulary = 128257;  // NullTokenizer: one more than --vocab-size
  expected.model.ffn_hidden = 14336;
  expected.model.activation = Activation::swiglu;
  expected.model.positions = Positions::rotary;
  expected.model.rotary_base = 1e6;
  expected.model.tied_embeddings = false;
  expected.model.dropout = 0;
  expected.model.biases = false;
  expected.model.attention = Attention::flash;
  expected.model.causal_mask = CausalMask::none;
  expected.model.precision = Precision::bf16;
  expected.parallel = {.tensor = 1, .pipeline = 1, .data = 8, .overlap_gradients = true};
  expected.batch = {.global = 128, .micro = 1};
  expected.low_precision.recipe = Recipe::delayed;
  expected.low_precision.parameters = LowOrHigh::low;  // --fp8-param-gather
  expected.sharding = sharding_of(true);
  expected.memory.gradient_dtype = StateType::bf16;  // --grad-reduce-in-bf16
  expected.training.init_std = 0.0134;
  expected.training.loss_scale = 0x1p32;
  expected.memory.empty_cache = EmptyCache::before_step;  // --empty-unused-memory-level 1
  REQUIRE(import.config == expected);
  MegatronImport const lenient = import_script("train_llama3_8b_h100_fp8.sh");
  REQUIRE(lenient.config == expected);
  std::vector<std::string> left_out;
  for (Omission const& omission : lenient.left_out) {
    if (omission.effect == OmittedEffect::large) left_out.push_back(omission.name.substr(2));
  }
  REQUIRE(left_out == refused);
}

TEST_CASE("pretrain_gpt_distributed_with_mp.sh of 2021: full recompute, unfused", "[import]") {
  MegatronImport const import = import_script("pretrain_gpt_distributed_with_mp.sh");
  TrainingConfig expected;
  expected.model = gpt3(24, 1024, 16, 1024);
  expected.parallel = {.tensor = 2, .pipeline = 2, .data = 2};
  expected.batch = {.global = 16, .micro = 4};
  expected.recompute.front().granularity = RecomputeGranularity::full;
  expected.training.beta2 = 0.999;
  expected.training.weight_decay = 0.01;
  expected.training.loss_scale = 0x1p32;
  REQUIRE(import.config == expected);
  REQUIRE(has_note(import.notes, "Megatron-LM of 2022, for --checkpoint-activations"));
}

TEST_CASE("pretrain_gpt3_175B.sh takes its ranks from Slurm and its flags out of quotes",
          "[import]") {
  MegatronImport const import = import_script("pretrain_gpt3_175B.sh");
  REQUIRE(import.config.parallel == ParallelLayout{.tensor = 8, .pipeline = 16, .data = 8});
  REQUIRE(import.config.model == gpt3(96, 12288, 96, 2048));
  REQUIRE(import.config.batch == BatchConfig{.global = 1536, .micro = 1});
  REQUIRE(import.config.recompute.front().granularity == RecomputeGranularity::full);
}

TEST_CASE("figure 18 of the paper of 2021 is an interleaved run", "[import]") {
  // Its scripts leave the launcher to SBATCH.sh: 12 nodes of 8.
  MegatronOptions options;
  options.world_size = 96;
  MegatronImport const import = import_script("sc21_figure_18.sh", {}, options);
  TrainingConfig expected;
  expected.model = gpt3(96, 12288, 96, 2048);
  expected.parallel = {.tensor = 8, .pipeline = 12, .interleave = 4, .data = 1};
  expected.batch = {.global = 12, .micro = 1};
  expected.schedule = {.kind = ScheduleKind::interleaved, .group = 12};
  expected.recompute.front().granularity = RecomputeGranularity::full;
  expected.training.learning_rate = 1e-4;
  expected.training.beta2 = 0.999;
  expected.training.weight_decay = 0.01;
  expected.training.loss_scale = 8192;
  REQUIRE(import.config == expected);
}

TEST_CASE("llm-jp's Llama 2 13B needs its vocabulary and then is Llama 2 13B", "[import]") {
  REQUIRE_THROWS_WITH(
      import_script("llama2_13b_llm-jp.sh"),
      "llama2_13b_llm-jp.sh: --vocab-size: missing; accepted: the number of tokens of "
      "SentencePieceTokenizer, which no flag says: --vocab-size N beside the others, or behind "
      "`--` at "
      "the end of this command: -- --vocab-size N");
  MegatronImport const import = import_script("llama2_13b_llm-jp.sh", {"--vocab-size", "32000"});
  REQUIRE(parameter_count(import.config.model) == 13'015'864'320);
  REQUIRE(import.config.parallel ==
          ParallelLayout{.tensor = 2, .pipeline = 4, .data = 16, .sequence = true});
  REQUIRE(import.config.model.attention == Attention::flash);
  REQUIRE(import.config.recompute.front().granularity == RecomputeGranularity::selective);
  REQUIRE(import.config.sharding.shares_optimizer());
  REQUIRE(import.config.training.learning_rate == 3e-4);
}

TEST_CASE("BLOOM's script is refused for what is not modelled and imported without it",
          "[import]") {
  REQUIRE_THROWS_WITH(import_script("tr11-176B-ml.slurm", {}, ignoring({})),
                      Catch::Contains("--embed-layernorm: found the flag") &&
                          Catch::Contains("--position-embedding-type: found 'alibi'"));
  // 70 layers and the two embeddings on 12 stages of 6.
  MegatronImport const import = import_script(
      "tr11-176B-ml.slurm", {}, ignoring({"embed-layernorm", "position-embedding-type"}));
  TrainingConfig const& config = import.config;
  REQUIRE(config.parallel == ParallelLayout{.tensor = 4, .pipeline = 12, .data = 8});
  REQUIRE(config.layout.list == std::vector<std::int64_t>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5});
  REQUIRE(config.recompute.front().granularity == RecomputeGranularity::full);
  REQUIRE(config.training.seed == 42);
  // BLOOM has 176,247,271,424 parameters, 2h of them in the norm of its embedding.
  REQUIRE(parameter_count(config.model) == 176'247'271'424 - 2 * 14336);
}

TEST_CASE("Mixtral's script is imported with the loss of its router", "[import]") {
  RouterConfig const router =
      import_script("train_mixtral_8x7b_distributed.sh").config.model.experts->router;
  REQUIRE(router.loss == RouterLoss::auxiliary);
  REQUIRE(router.loss_coefficient == 1e-2);
}

}  // namespace
}  // namespace stagecraft::megatron_script_test
