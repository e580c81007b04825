#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "tests/libsim/import/import_notes.hpp"

// What a trial on 756 launch scripts of public repositories stumbled over, each with the smallest
// input that has it.

namespace stagecraft::real_scripts_test {
namespace {

std::string const model_flags =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 1 --bf16 --lr 1e-4 ";

struct Input {
  std::vector<std::string> ignore{};
  std::vector<std::string> arguments{};
  std::map<std::string, std::string> preset{};
  std::optional<std::int64_t> world_size{};
  Strictness strictness = Strictness::lenient;
};

MegatronImport import_text(std::string const& script, Input const& input = {}) {
  Diagnostics diagnostics;
  LaunchCommand const launch =
      read_launch_script(script, "s.sh", input.preset, diagnostics, input.arguments);
  diagnostics.throw_if_any();
  MegatronOptions options;
  options.ignore = input.ignore;
  options.strictness = input.strictness;
  options.world_size = input.world_size ? input.world_size : launch.world_size.value_or(8);
  return import_megatron(launch.arguments, "s.sh", options);
}

/// What strict import says.
std::string refusal(std::string const& script, Input input = {}) {
  input.strictness = Strictness::strict;
  try {
    import_text(script, input);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("1: context-parallel ranks are no replicas", "[import]") {
  // megatron/core/parallel_state.py: data parallelism is the world over t p cp. 16 / (2 x 4) = 2.
  std::string const script = "python x.py " + model_flags +
                             "--vocab-size 50304 --tensor-model-parallel-size 2 "
                             "--context-parallel-size 4 --global-batch-size 4";
  Input const input{.ignore = {"context-parallel-size"}, .world_size = 16};
  MegatronImport const import = import_text(script, input);
  REQUIRE(import.config.parallel.data == 2);
  REQUIRE(has_note(import.notes, "the run file has 4 of the 16 GPUs"));
  REQUIRE_THAT(refusal(script, {.world_size = 16}), Catch::Contains("--context-parallel-size"));
  REQUIRE_THAT(refusal(script, {.ignore = input.ignore, .world_size = 12}),
               Catch::Contains("a multiple of tensor x pipeline x context (8)"));
  // With flash attention and no dropout in it, sequences are split.
  std::string const flash = script + " --attention-backend flash --attention-dropout 0 ";
  MegatronImport const split = import_text(flash, {.world_size = 16});
  REQUIRE(split.config.parallel.context == 4);
  REQUIRE(split.config.parallel.data == 2);
  REQUIRE(split.config.parallel.context_method == ContextMethod::ring);
  REQUIRE(import_text(flash + "--cp-comm-type a2a a2a", {.world_size = 16})
              .config.parallel.context_method == ContextMethod::ulysses);
  REQUIRE_THAT(refusal(flash + "--cp-comm-type a2a p2p", {.world_size = 16}),
               Catch::Contains("accepted: one type for all layers"));
  REQUIRE_THAT(refusal(flash + "--cp-comm-type usp", {.world_size = 16}),
               Catch::Contains("accepted: p2p, all_gather, a2a, a2a+p2p"));
  REQUIRE_THAT(refusal(flash + "--cp-comm-type a2a+p2p", {.world_size = 16}),
               Catch::Contains("--hierarchical-context-parallel-sizes: missing; accepted: two"));
  REQUIRE(import_text(flash, input).config.parallel.context == 1);
  std::string const deepspeed = "python x.py " + model_flags +
                                "--vocab-size 50304 --use-flash-attn --attention-dropout 0 "
                                "--ds-sequence-parallel-size 2 --global-batch-size 4";
  REQUIRE(import_text(deepspeed, {.world_size = 2}).config.parallel.context_method ==
          ContextMethod::ulysses);
}

TEST_CASE("2: a script's arguments are given after it, or as variables", "[import]") {
  std::string const script = "MP=$1\nshift_by=$#\npython x.py " + model_flags +
                             "--tensor-model-parallel-size $MP --seed $2$shift_by";
  MegatronImport const import = import_text(script, {.arguments = {"4", "7"}});
  REQUIRE(import.config.parallel.tensor == 4);
  REQUIRE(import.config.training.seed == 72);
  REQUIRE(import_text(script, {.preset = {{"1", "2"}, {"2", "3"}}}).config.parallel.tensor == 2);
  REQUIRE_THAT(refusal(script),
               Catch::Contains("'$1', which the script does not set (--variable 1=VALUE, or the "
                               "script's arguments after --script FILE)"));
  REQUIRE(import_text("python x.py \"$@\"",
                      {.arguments = {"--num-layers", "2", "--hidden-size", "64",
                                     "--num-attention-heads", "4", "--seq-length", "32",
                                     "--max-position-embeddings", "32", "--micro-batch-size", "1"}})
              .config.model.layers == 2);
}

TEST_CASE("3: Megatron-DeepSpeed's norms, groups, attention and ZeRO stages are read", "[import]") {
  // Megatron-DeepSpeed, megatron/arguments.py and
  // examples_deepspeed/pretrain_llama2_distributed.sh.
  TrainingConfig const config =
      import_text("python x.py " + model_flags +
                  "--normalization rmsnorm --num-key-value-heads 4 --use-flash-attn-v2 "
                  "--zero-stage 1 --use-rotary-position-embeddings "
                  "--rotary-position-embeddings-theta 500000 --universal-checkpoint "
                  "--log-optimizer-states-to-tensorboard")
          .config;
  REQUIRE(config.model.norm == Norm::rmsnorm);
  REQUIRE(config.model.kv_heads == 4);
  REQUIRE(config.model.attention == Attention::flash);
  REQUIRE(config.model.rotary_base == 500'000);
  REQUIRE(config.sharding.shares_optimizer());
  auto const zero = [](std::string const& stage) {
    return "python x.py " + model_flags + "--zero-stage " + stage;
  };
  REQUIRE_FALSE(import_text(zero("0")).config.sharding.shares_optimizer());
  REQUIRE_THAT(refusal(zero("3")),
               Catch::Contains("--ignore zero-stage (modelled instead: stage 1"));
  REQUIRE(import_text(zero("3"), {.ignore = {"zero-stage"}}).config.sharding.shares_optimizer());
  Input const ulysses{.ignore = {"ds-sequence-parallel-size"}};
  REQUIRE(import_text("python x.py " + model_flags + "--ds-sequence-parallel-size 4", ulysses)
              .config.parallel.data == 2);
}

TEST_CASE("4: a placeholder for a value without effect is a note", "[import]") {
  // Megatron-LM's examples/pretrain_gpt.sh: a file name in angle brackets, which bash redirects
  // from.
  MegatronImport const import =
      import_text("VOCAB_FILE=<Specify path to file>/gpt2-vocab.json\npython x.py " + model_flags +
                  "--vocab-file $VOCAB_FILE --merge-file");
  REQUIRE(has_note(import.notes, "--merge-file has no value here; it has no effect"));
  REQUIRE_THAT(refusal("python x.py " + model_flags + "--seed"),
               Catch::Contains("--seed: found no value"));
}

TEST_CASE("5: the words of a command that is not run are no flags", "[import]") {
  MegatronImport const import = import_text(
      "GPU=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)\n"
      "OPTS=\"--seed 3 --wandb-name $GPU-`date +%d --utc`\"\npython x.py " +
      model_flags + "$OPTS");
  REQUIRE(import.config.training.seed == 3);
  // bigscience, tr14-2B7-mup.slurm: quotes of the command within those of the words around it.
  REQUIRE(
      import_text("LR=1\nOPTS=\"--min-lr `bc <<< \"scale=3; $LR/10\"` --seed 5\"\npython x.py " +
                  model_flags + "$OPTS")
          .config.training.seed == 5);
}

TEST_CASE("6: powers are calculated, and open arithmetic names its variables", "[import]") {
  REQUIRE(import_text("B=$((2 ** 6))\npython x.py " + model_flags + "--global-batch-size $B")
              .config.batch.global == 64);
  REQUIRE_THAT(
      refusal("B=$(( TOTAL / MICRO ))\npython x.py " + model_flags + "--global-batch-size $B"),
      Catch::Contains("'$(( TOTAL / MICRO ))', which the script does not set (--variable "
                      "TOTAL=VALUE, --variable MICRO=VALUE)"));
}

TEST_CASE("7: #SBATCH lines set what Slurm sets", "[import]") {
  // sbatch(1), output environment variables.
  TrainingConfig const config =
      import_text(
          "#SBATCH --nodes=4\n#SBATCH --gpus-per-node=a100:4\n#SBATCH --ntasks-per-node=4\n"
          "torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_PER_NODE x.py " +
          model_flags +
          "--seed $SLURM_NTASKS --tensor-model-parallel-size "
          "$SLURM_NTASKS_PER_NODE --global-batch-size $SLURM_NPROCS")
          .config;
  REQUIRE(world_size(config.parallel) == 16);
  REQUIRE(config.parallel.tensor == 4);
  REQUIRE(config.training.seed == 16);
  REQUIRE(config.batch.global == 16);
}

TEST_CASE("8: the largest batch of a schedule of batches is modelled", "[import]") {
  // Megatron-LM since core v0.18: THRESHOLD:BATCH, in place of --global-batch-size.
  MegatronImport const import = import_text(
      "python x.py " + model_flags + "--step-batch-size-schedule \"0:768 250B:1536 500B:1024\"");
  REQUIRE(import.config.batch.global == 1536);
  REQUIRE(has_note(import.notes, "--step-batch-size-schedule: the largest batch"));
}

TEST_CASE("9: what was not followed is said where no command is found", "[import]") {
  REQUIRE_THAT(
      refusal("while nvidia-smi; do\n  python x.py --num-layers 2\ndone\nfor ((i=0;i<2;i++))\n"
              "do\n  python x.py --num-layers 2\ndone\n"),
      Catch::Contains("found no command with --num-layers; line 1: a loop is not "
                      "followed; line 4: a loop is not followed"));
}

TEST_CASE("10: block recompute of more layers than a chunk has is that of the chunk", "[import]") {
  // megatron/core/transformer/transformer_block.py compares a layer's number in its chunk with it.
  MegatronImport const import =
      import_text("python x.py " + model_flags +
                  "--pipeline-model-parallel-size 4 --recompute-granularity full "
                  "--recompute-method block --recompute-num-layers 24");
  REQUIRE(import.config.recompute.front().layers == 6);
  REQUIRE(has_note(import.notes, "that of all 6 layers of a chunk"));
  REQUIRE(import_text("python x.py " + model_flags +
                      "--recompute-granularity full --recompute-method block "
                      "--recompute-num-layers 0")
              .config.recompute.front()
              .granularity == RecomputeGranularity::none);
}

TEST_CASE("11: eval expands a second time", "[import]") {
  std::string flags = model_flags;
  MegatronImport const import =
      import_text("cmd=\"python x.py " + flags + "--global-batch-size 64 " +
                  "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout "
                  "Et\\|\\(tt\\|\\)\\*30ttL\"\neval echo nothing\neval $cmd --num-layers 63");
  REQUIRE(import.config.model.layers == 63);
}

TEST_CASE("12: functions are called, and loops over words are followed", "[import]") {
  // bash(1): arguments of a function are its positional parameters, and the caller's come back.
  TrainingConfig const config =
      import_text(
          "batch() { SIZE=$1; if [ \"$2\" = big ]; then FACTOR=8; return; fi\n FACTOR=1\n}\n"
          "function start {\n  local more=\"--seed $2\"\n  python x.py " +
              model_flags +
              "--global-batch-size $((SIZE * FACTOR)) $more --$TYPE --num-layers $1\n}\n"
              "for TYPE in fp16 bf16; do\n  for size in 4 16\n  do batch $size $1; done\n"
              "  start 12 34\ndone\n",
          {.arguments = {"big"}})
          .config;
  REQUIRE(config.batch.global == 128);
  REQUIRE(config.training.seed == 34);
  REQUIRE(config.model.layers == 12);
  REQUIRE(config.model.precision == Precision::bf16);
  // bigscience, jz/slurm/multi-node-launcher3.slurm: flags in a loop over hosts, which only the
  // shell knows, win over those that a variable has.
  REQUIRE(import_text("FLAGS=\"" + model_flags +
                      "\"\nfor node in $HOSTS; do\n  ssh $node python "
                      "x.py --tensor-model-parallel-size 2 $FLAGS\ndone\n")
              .config.parallel.tensor == 2);
  // Blocks that are closed before they are opened, or never.
  for (std::string const broken : {"f() } {", "for x in 1 done do", "f() {", "for x in 1; do"}) {
    REQUIRE_THAT(refusal(broken), Catch::Contains("no command with --num-layers"));
  }
  // A function that nobody calls, one that calls itself, and a loop over nothing.
  REQUIRE(import_text("none() { python x.py --num-layers 2; }\nagain() { again; }\nagain\n"
                      "for i in \"$@\"; do none; done\npython x.py " +
                      model_flags)
              .config.model.layers == 24);
}

TEST_CASE("13: what descendants of Megatron-LM call heads, norms and activations is read",
          "[import]") {
  auto const model = [](std::string const& flags) {
    return import_text("python x.py " + model_flags + flags).config.model;
  };
  // bigcode-project/Megatron-LM, megatron/arguments.py: one key and value head for all.
  REQUIRE(model("--attention-head-type multiquery").kv_heads == 1);
  REQUIRE(model("--attention-head-type multihead").kv_heads == 16);
  REQUIRE_THAT(refusal("python x.py " + model_flags + "--attention-head-type some"),
               Catch::Contains("accepted: multihead, multiquery"));
  // Pai-Megatron-Patch: falcon40b/transformer.py, llama/transformer.py.
  REQUIRE(model("--n-head-kv 8").kv_heads == 8);
  REQUIRE(model("--intermediate-size 2816 --swiglu").ffn_hidden == 2816);
  // Megatron-LLaMA, megatron/arguments.py.
  REQUIRE(model("--RMSNorm").norm == Norm::rmsnorm);
  REQUIRE(import_text("python x.py " + model_flags + "--overlapped-distributed-optimizer")
              .config.sharding.shares_optimizer());
  // MindSpeed-LLM, core/transformer/mlp.py: both are gated, and four widths wide without --swiglu.
  REQUIRE(model("--geglu").activation == Activation::geglu);
  REQUIRE(model("--gelu-tanh").activation == Activation::geglu);
  REQUIRE(model("--gelu-tanh").ffn_hidden == 4096);
  // bigscience's Megatron-DeepSpeed, glu_activations.py and transformer.py: gated, without the
  // narrower default.
  REQUIRE(model("--glu-activation swiglu").activation == Activation::swiglu);
  REQUIRE(model("--glu-activation swiglu").ffn_hidden == 4096);
  REQUIRE(model("--glu-activation liglu").activation == Activation::geglu);
  // Megatron-DeepSpeed, megatron/arguments.py: the number of layers is 1 by default.
  RecomputePolicy const policy = import_text("python x.py " + model_flags +
                                             "--recompute-granularity full --recompute-method "
                                             "uniform")
                                     .config.recompute.front();
  REQUIRE(policy.granularity == RecomputeGranularity::full);
  REQUIRE(policy.layers == 1);
  // HabanaAI/Megatron-DeepSpeed, megatron/model/transformer.py, checkpoint_mlp.
  REQUIRE(import_text("python x.py " + model_flags + "--recompute-granularity mlp")
              .config.recompute.front()
              .modules == std::vector<std::string>{"mlp"});
}

TEST_CASE("14: widths without whole blocks leave products in 16 bits", "[import]") {
  // Transformer Engine wants multiples of 16: 4104 / 2 is none, 4096 / 2 is one.
  std::string const flags = "python x.py " + model_flags +
                            "--fp8-format hybrid --fp8-recipe tensorwise "
                            "--tensor-model-parallel-size 2 --ffn-hidden-size ";
  REQUIRE(import_text(flags + "4104").config.low_precision.recipe == Recipe::none);
  REQUIRE(import_text(flags + "4096").config.low_precision.recipe == Recipe::current);
  REQUIRE_THAT(refusal(flags + "4104"), Catch::Contains("a multiple of 16"));
}

}  // namespace
}  // namespace stagecraft::real_scripts_test
