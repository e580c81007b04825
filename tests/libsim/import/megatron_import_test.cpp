#include "libsim/import/megatron/megatron_import.hpp"

#include <catch2/catch.hpp>
#include <sstream>

#include "libsim/config/problem.hpp"
#include "libsim/import/megatron/megatron_flag_table.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::megatron_import_test {
namespace {

std::string const plain =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
    "--max-position-embeddings 512 --micro-batch-size 2 --global-batch-size 64 --fp16 ";

MegatronImport read(std::string const& flags, MegatronOptions options = {}) {
  if (!options.world_size) options.world_size = 8;
  std::vector<ShellWord> words;
  std::istringstream stream{flags};
  for (std::string word; stream >> word;) words.push_back({word, 0, 0});
  return import_megatron(words, "command line", options);
}

TrainingConfig config_of(std::string const& more) { return read(plain + more).config; }

/// What strict import says.
std::string refusal(std::string const& flags, MegatronOptions options = {}) {
  options.strictness = Strictness::strict;
  try {
    read(flags, options);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("local modules have unfused attention and a stack of their own", "[import]") {
  MegatronImport const local = read(plain + "--transformer-impl local --attention-backend flash");
  REQUIRE(local.software == "megatron-core-local");
  REQUIRE(local.config.model.attention == Attention::unfused);
  // MindSpeed's own dot_product_attention.py reads the flag.
  std::string const flash = "--transformer-impl local --use-flash-attn ";
  REQUIRE(read(plain + flash).config.model.attention == Attention::unfused);
  REQUIRE(read(plain + flash + "--use-fused-rmsnorm").config.model.attention == Attention::flash);
  MegatronImport const other = read(plain + "--transformer-impl transformer_engine");
  REQUIRE(other.software == "megatron-core");
  REQUIRE(other.config.model.attention == Attention::flash);
}

TEST_CASE("main gradients are of 32 bits unless the model is in fp16", "[import]") {
  // megatron/training/arguments.py: accumulate_allreduce_grads_in_fp32 is set for bf16.
  MegatronOptions today;
  today.version = MegatronVersion::current;
  REQUIRE(read(plain, today).config.memory.gradient_dtype == StateType::fp16);
  REQUIRE(read(plain + "--accumulate-allreduce-grads-in-fp32", today).config.memory ==
          MemoryConfig{});
}

TEST_CASE("types of Megatron-FSDP's gradients are the model's unless flags say others",
          "[import]") {
  // arguments.py: --megatron-fsdp-main-grads-dtype and --megatron-fsdp-grad-comm-dtype are auto,
  // and
  // --data-parallel-sharding-strategy is optim_grads_params.
  std::string const fsdp = "--use-megatron-fsdp --overlap-grad-reduce ";
  TrainingConfig const usual = config_of(fsdp);
  CHECK(usual.sharding == default_sharding(ShardingKind::megatron_fsdp));
  CHECK(usual.memory.gradient_dtype == StateType::fp16);
  TrainingConfig const wide = config_of(fsdp +
                                        "--megatron-fsdp-main-grads-dtype fp32 "
                                        "--megatron-fsdp-grad-comm-dtype bf16");
  CHECK(wide.memory.gradient_dtype == StateType::fp32);
  CHECK(wide.sharding.reduce_dtype == UnitType::bf16);
  CHECK(config_of(fsdp + "--data-parallel-sharding-strategy optim").sharding.strategy ==
        ShardingStrategy::optim);
  CHECK(config_of(fsdp + "--data-parallel-sharding-strategy no_shard").sharding == Sharding{});
  CHECK(config_of(fsdp + "--data-parallel-sharding-strategy no_shard --megatron-fsdp-version 2")
            .sharding == Sharding{});
  CHECK_THAT(refusal(plain + fsdp + "--data-parallel-sharding-strategy all"),
             Catch::Contains("optim_grads"));
}

TEST_CASE("the host has what as many layers save as --cpu-offloading-num-layers says", "[import]") {
  // arguments.py sets cpu_offloading if it is above 0; transformer_config.py has what it refuses.
  CHECK(config_of("--cpu-offloading-num-layers 3").offload.activations.layers == 3);
  CHECK(config_of("--cpu-offloading-num-layers 0").offload == Offload{});
  std::string const modules = "--offload-modules attn_proj core_attn ";
  CHECK(config_of(modules).offload == Offload{});
  ActivationOffload const fine =
      config_of(modules + "--fine-grained-activation-offloading --activation-offload-fraction 0.8")
          .offload.activations;
  CHECK(fine.modules.has(OffloadModule::core_attn));
  CHECK(fine.modules.has(OffloadModule::attn_proj));
  CHECK_FALSE(fine.modules.has(OffloadModule::qkv_linear));
  CHECK(fine.fraction == 0.8);
  CHECK_THAT(refusal(plain + "--cpu-offloading-num-layers 3 --recompute-granularity full "
                             "--recompute-method uniform"),
             Catch::Contains("accepted: none, as offload.activations is set"));
  CHECK_THAT(refusal(plain + "--cpu-offloading-num-layers 100"),
             Catch::Contains("--cpu-offloading-num-layers (offload.activations.layers)"));
}

TEST_CASE("a strategy of Megatron-FSDP without units has pipelines, and gradients as flags say",
          "[import]") {
  std::string const optim =
      "--use-megatron-fsdp --data-parallel-sharding-strategy optim "
      "--pipeline-model-parallel-size 2 --megatron-fsdp-main-grads-dtype fp32 ";
  TrainingConfig const config = config_of(optim);
  CHECK(config.sharding.strategy == ShardingStrategy::optim);
  CHECK(config.memory.gradient_dtype == StateType::fp32);
  CHECK_THAT(refusal(plain + optim + "--megatron-fsdp-grad-comm-dtype bf16"),
             Catch::Contains("auto, or the type of main gradients"));
}

TEST_CASE("CUBLAS_WORKSPACE_CONFIG is a sum of sizes in KiB, or nothing", "[import]") {
  auto const workspace = [](std::string const& text) {
    MegatronOptions options;
    options.environment.set("CUBLAS_WORKSPACE_CONFIG", text);
    return read(plain, options).config.memory.cublas_workspace;
  };
  constexpr std::int64_t kib = 1024;
  REQUIRE(workspace(":4096:8") == Bytes{32768 * kib});
  REQUIRE(workspace(":4096:2:16:8") == Bytes{(2 * 4096 + 8 * 16) * kib});
  for (char const* const none : {"", "4096", ":4096", ":x:8", ":99999999999:1"}) {
    CAPTURE(none);
    REQUIRE_FALSE(workspace(none).has_value());
  }
}

TEST_CASE("former names of flags mean what their present ones do", "[import]") {
  REQUIRE(config_of("--model-parallel-size 2").parallel.tensor == 2);
  REQUIRE(config_of("--layernorm-epsilon 1e-6").model.norm_epsilon == 1e-6);
  REQUIRE(config_of("--pad-vocab-size-to 51200").model.vocabulary == 51200);
  using G = RecomputeGranularity;
  auto const policy = [](std::string const& flags) { return config_of(flags).recompute.front(); };
  REQUIRE(policy("--checkpoint-activations --checkpoint-num-layers 4") ==
          RecomputePolicy{.granularity = G::full, .layers = 4});
  REQUIRE(policy("--activations-checkpoint-method block --activations-checkpoint-num-layers 3") ==
          RecomputePolicy{.granularity = G::full, .method = RecomputeMethod::block, .layers = 3});
  REQUIRE(policy("--activations-checkpoint-granularity selective").granularity == G::selective);
  REQUIRE(policy("--recompute-activations").granularity == G::selective);
  REQUIRE(policy("--recompute-granularity selective --recompute-modules mlp core_attn").modules ==
          std::vector<std::string>{"core_attention", "mlp"});
  REQUIRE(policy("--tensor-model-parallel-size 2 --recompute-granularity full --recompute-method "
                 "uniform --recompute-num-layers 1 --distribute-saved-activations")
              .sharded_checkpoints);
  REQUIRE(policy("--tensor-model-parallel-size 2 --activations-checkpoint-method uniform "
                 "--distribute-checkpointed-activations")
              .sharded_checkpoints);
}

TEST_CASE("the last of two flags wins, as argparse has it, also written with =", "[import]") {
  REQUIRE(config_of("--seed 1 --seed=2").training.seed == 2);
}

TEST_CASE("virtual stages come from their layers or from their number", "[import]") {
  auto const chunks = [](std::string const& flags) {
    return config_of("--pipeline-model-parallel-size 4 " + flags).parallel.interleave;
  };
  REQUIRE(chunks("") == 1);
  REQUIRE(chunks("--num-layers-per-virtual-pipeline-stage 2") == 3);
  REQUIRE(chunks("--num-layers-per-virtual-pipeline-stage 6") == 1);
  REQUIRE(chunks("--num-virtual-stages-per-pipeline-rank 2") == 2);
  TrainingConfig const listed = config_of(
      "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*2|(t*4|)*4,t*3|t*3|L");
  REQUIRE(listed.parallel.interleave == 2);
  REQUIRE(listed.layout.list == std::vector<std::int64_t>{2, 4, 4, 4, 4, 3, 3, 0});
}

TEST_CASE("uneven first and last stages and counted embeddings become a layout", "[import]") {
  TrainingConfig const ends = config_of(
      "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5 "
      "--decoder-last-pipeline-num-layers 7");
  REQUIRE(ends.layout == LayerSplit{LayerSplit::Kind::first_last, 5, 7, {}});
  TrainingConfig const counted = read(
                                     "--num-layers 26 --pipeline-model-parallel-size 4 "
                                     "--account-for-embedding-in-pipeline-split "
                                     "--account-for-loss-in-pipeline-split " +
                                     plain.substr(plain.find("--hidden")))
                                     .config;
  REQUIRE(counted.layout.list == std::vector<std::int64_t>{6, 7, 7, 6});
}

TEST_CASE("what is left out means what the version of Megatron-LM makes of it", "[import]") {
  std::string const interleaved = plain +
                                  "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
                                  "--num-layers-per-virtual-pipeline-stage 3 ";
  TrainingConfig const now = read(interleaved).config;
  REQUIRE(now.schedule ==
          ScheduleConfig{ScheduleKind::interleaved, 4, P2p::overlapped, StepSync::barrier, false});
  REQUIRE(now.model.attention == Attention::flash);
  MegatronOptions options;
  options.version = MegatronVersion::of_2022;
  TrainingConfig const then = read(interleaved, options).config;
  REQUIRE(then.schedule ==
          ScheduleConfig{ScheduleKind::interleaved, 4, P2p::blocking, StepSync::barrier, true});
  REQUIRE(then.model.attention == Attention::unfused);
  REQUIRE(read(interleaved + "--DDP-impl local").config == then);
}

TEST_CASE("a gated MLP without a width has Megatron's two thirds of 4h", "[import]") {
  // arguments.py: int((4 h 2 / 3) / 64) 64 = 2688 for h = 1024.
  REQUIRE(config_of("--swiglu").model.ffn_hidden == 2688);
  REQUIRE(config_of("").model.ffn_hidden == 4096);
}

TEST_CASE("the vocabulary is the tokenizer's, or the padded one", "[import]") {
  REQUIRE(config_of("").model.vocabulary == 50257);
  REQUIRE(config_of("--vocab-size 32000 --tokenizer-type Llama2Tokenizer").model.vocabulary ==
          32000);
  REQUIRE(config_of("--vocab-size 32000 --tokenizer-type NullTokenizer").model.vocabulary == 32001);
  ModelConfig const padded = config_of("--padded-vocab-size 50304").model;
  REQUIRE((padded.vocabulary == 50304 && padded.vocabulary_multiple == 1));
  REQUIRE_THAT(refusal(plain + "--tokenizer-type Llama2Tokenizer"),
               Catch::Contains("--vocab-size: missing; accepted: the number of tokens of "
                               "Llama2Tokenizer") &&
                   Catch::Contains("of this command: -- --vocab-size N"));
}

TEST_CASE("an unknown flag is named with the nearest one, unless ignored", "[import]") {
  REQUIRE(refusal(plain + "--tensor-model-parallel-sise 2") ==
          "command line: --tensor-model-parallel-sise: found an unknown flag; accepted: "
          "Megatron-LM's flags, or --ignore tensor-model-parallel-sise; did you mean "
          "'--tensor-model-parallel-size'?");
  MegatronOptions options;
  options.ignore = {"--my-flag"};
  MegatronImport const import = read(plain + "--my-flag 1 2 --seed 3", options);
  REQUIRE(import.config.training.seed == 3);
  REQUIRE(import.notes.front() == "ignored: --my-flag, which this import does not know");
}

TEST_CASE("every problem of a command line comes out at once", "[import]") {
  std::string const message = refusal(
      "--num-layers x --hidden-size -5 --num-attention-heads $HEADS --micro-batch-size "
      "--num-distributed-optimizer-instances 2 --fp16 --normalization Batch");
  for (char const* const part :
       {"--num-layers: found 'x'; accepted: a whole number from 1 to 100000",
        "--hidden-size: found '-5'",
        "--num-attention-heads: found '$HEADS', which the script does not set",
        "--seq-length: missing", "--micro-batch-size: found no value; accepted: a value after it",
        "--num-distributed-optimizer-instances: found '2'; accepted: 1, or --ignore "
        "num-distributed-optimizer-instances",
        "--normalization: found 'Batch'; accepted: LayerNorm, RMSNorm"}) {
    CAPTURE(part);
    REQUIRE_THAT(message, Catch::Contains(part));
  }
}

TEST_CASE("flags that cannot be run together are refused by the flags' names", "[import]") {
  struct Case {
    char const* flags;
    char const* problem;
  };
  for (Case const& c : std::vector<Case>{
           {"--tensor-model-parallel-size 3", "world size: found '8'; accepted: a multiple of"},
           {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5",
            "--num-layers-per-virtual-pipeline-stage: found '5'; accepted: a divisor of a stage's"},
           {"--global-batch-size 63",
            "--global-batch-size (batch.global): found '63'; accepted: a multiple"},
           {"--bf16", "--fp16: found the flag; accepted: --fp16 or --bf16, not both"},
           {"--recompute-granularity full",
            "--recompute-method: missing; accepted: uniform, block"},
           {"--recompute-granularity some",
            "--recompute-granularity: found 'some'; accepted: full"},
           {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 25",
            "--recompute-num-layers (recompute.layers): found '25'"},
           {"--seq-length 1024", "--max-position-embeddings: found '512'; accepted: at least"},
           {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout EtL",
            "--pipeline-model-parallel-layout: found 'EtL'; accepted: stages of E, t and L"},
           {"--optimizer sgd", "--optimizer: found 'sgd'; accepted: adam, or --ignore optimizer"},
           {"--num-query-groups 4",
            "--num-query-groups: found '4'; accepted: --group-query-attention"},
           {"--seed=1 --fp16=yes", "--fp16: found 'yes'; accepted: no value"}}) {
    CAPTURE(c.flags);
    REQUIRE_THAT(refusal(plain + c.flags), Catch::Contains(c.problem));
  }
  MegatronOptions options;
  options.world_size = 7;
  REQUIRE_THAT(
      refusal(plain + "--tensor-model-parallel-size 2", options),
      Catch::Contains("world size: found '7'; accepted: a multiple of tensor x pipeline (2)"));
}

TEST_CASE("unfused kernels matter only where the run has them", "[import]") {
  REQUIRE(refusal(plain + "--no-masked-softmax-fusion --use-flash-attn") == "accepted");
  REQUIRE(refusal(plain + "--no-masked-softmax-fusion") != "accepted");
  REQUIRE(refusal(plain + "--no-bias-gelu-fusion --disable-bias-linear") == "accepted");
  REQUIRE(refusal(plain + "--no-bias-gelu-fusion") != "accepted");
}

TEST_CASE("every flag that is refused can be ignored, and every harmless value is harmless",
          "[import]") {
  for (std::string const& name : flag_names()) {
    MegatronFlag const& flag = *find_flag(name.substr(2));
    using Effect = MegatronFlag::Effect;
    if (flag.effect == Effect::modelled || flag.effect == Effect::none) continue;
    CAPTURE(name);
    // Degrees of parallelism must divide the 8 ranks.
    bool const is_degree = name.ends_with("parallel-size");
    std::string const value = flag.values == FlagValues::none ? "" : is_degree ? " 4" : " 77";
    MegatronOptions options;
    options.ignore = {name};
    REQUIRE(refusal(plain + name + value, options) == "accepted");
    bool const is_moot =
        name.rfind("--moe-", 0) == 0 || name == "--no-bias-swiglu-fusion" || !flag.needs.empty();
    REQUIRE((refusal(plain + name + value) == "accepted") == is_moot);
    if (!flag.harmless.empty()) {
      REQUIRE(refusal(plain + name + " " + std::string{flag.harmless}) == "accepted");
    }
  }
}

TEST_CASE("an imported run is written as a run file that loads to the same run", "[import]") {
  MegatronImport const import = read(plain + "--tensor-model-parallel-size 2 --sequence-parallel");
  std::string const text = to_run_file(
      import, std::string{STAGECRAFT_SOURCE_DIR} + "/configs/systems/selene-a100.yaml", "flags");
  RunConfig const run = parse_run_config(text, "run.yaml", {});
  TrainingConfig read = settled_with_stack(run.training);
  REQUIRE(run.system.software.name == "megatron-core");
  read.stack = {};
  REQUIRE(read == settled_with_stack(import.config));
  REQUIRE(run.warnings.empty());
}

}  // namespace
}  // namespace stagecraft::megatron_import_test
