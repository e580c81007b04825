#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "tests/libsim/import/import_notes.hpp"

// What launch scripts of public repositories were refused for most often, and the flags of
// Megatron-LM's descendants.

namespace stagecraft::frequent_refusals_test {
namespace {

std::string const flags =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 1 --bf16 --lr 1e-4 ";
std::string const program = "python pretrain_gpt.py " + flags;
std::string const vocabulary = "--vocab-size 50304 ";

struct Remedies {
  std::vector<std::string> ignore{};
  std::map<std::string, std::string> variables{};
  std::optional<std::int64_t> world_size = 8;
  Strictness strictness = Strictness::lenient;
};

MegatronImport import_text(std::string const& script, Remedies const& remedies = {}) {
  Diagnostics diagnostics;
  LaunchCommand const launch =
      read_launch_script(script, "s.sh", remedies.variables, diagnostics, {});
  diagnostics.throw_if_any();
  MegatronOptions options;
  options.ignore = remedies.ignore;
  options.strictness = remedies.strictness;
  options.world_size = launch.world_size ? launch.world_size : remedies.world_size;
  return import_megatron(launch.arguments, "s.sh", options);
}

/// What strict import says.
std::string refusal(std::string const& script, Remedies remedies = {}) {
  remedies.strictness = Strictness::strict;
  try {
    import_text(script, remedies);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("every frequent refusal names a remedy with which the script is imported", "[import]") {
  struct Refusal {
    char const* more;
    char const* message;
    char const* ignored;
  };
  for (Refusal const& row : std::vector<Refusal>{
           {"--zero-stage 2", "--zero-stage: found '2'", "zero-stage"},
           {"--zero-stage 3", "--zero-stage: found '3'", "zero-stage"},
           {"--no-gradient-accumulation-fusion",
            "--no-gradient-accumulation-fusion: found the flag", "no-gradient-accumulation-fusion"},
           {"--position-embedding-type alibi", "--position-embedding-type: found 'alibi'",
            "position-embedding-type"},
           {"--embed-layernorm", "--embed-layernorm: found the flag", "embed-layernorm"},
           {"--pp-partition-method parameters --pipeline-model-parallel-size 4",
            "--pp-partition-method: found 'parameters'", "pp-partition-method"},
           {"--overlap-param-gather --use-distributed-optimizer",
            "--overlap-param-gather: found the flag", "overlap-param-gather"},
           {"--use-mc2", "--use-mc2: found the flag", "use-mc2"},
           {"--reuse-fp32-param", "--reuse-fp32-param: found the flag", "reuse-fp32-param"}}) {
    CAPTURE(row.more);
    std::string const script = program + vocabulary + row.more;
    REQUIRE_THAT(refusal(script), Catch::Contains(row.message) &&
                                      Catch::Contains(std::string{"--ignore "} + row.ignored));
    REQUIRE(has_note(import_text(script, {.ignore = {row.ignored}}).notes,
                     std::string{"ignored: --"} + row.ignored));
  }
  REQUIRE_THAT(refusal(program + vocabulary, {.world_size = std::nullopt}),
               Catch::Contains("world size: missing; accepted: --world-size N"));
  REQUIRE_THAT(refusal(program + "--tokenizer-type Llama2Tokenizer"),
               Catch::Contains("--vocab-size: missing"));
  std::string const open = program + vocabulary + "--global-batch-size $GBS";
  REQUIRE_THAT(refusal(open), Catch::Contains("--variable GBS=VALUE"));
  REQUIRE(import_text(open, {.variables = {{"GBS", "64"}}}).config.batch.global == 64);
}

TEST_CASE("a variable that a command sets is asked for by its name, and given", "[import]") {
  std::string const script =
      "N=$(cat \"$HF/config.json\" | jq -r '.num_hidden_layers')\nD=`date`\n" + program +
      vocabulary + "--num-layers $N --wandb-name run-$D";
  REQUIRE_THAT(refusal(script), Catch::Contains("--num-layers: found '${N}', which the script does "
                                                "not set (--variable N=VALUE)"));
  REQUIRE(import_text(script, {.variables = {{"N", "32"}}}).config.model.layers == 32);
  // The same of arithmetic whose operands nobody knows; what the script knows wins.
  std::string const batch = "DP=$(( WORLD / TP ))\nGBS=$(( 8 * DP ))\nSEED=3\n" + program +
                            vocabulary + "--global-batch-size $GBS --seed $SEED";
  REQUIRE_THAT(refusal(batch), Catch::Contains("--variable DP=VALUE"));
  MegatronImport const import = import_text(batch, {.variables = {{"DP", "4"}, {"SEED", "9"}}});
  REQUIRE(import.config.batch.global == 32);
  REQUIRE(import.config.training.seed == 3);
}

TEST_CASE("a variable in a flag's name is asked for", "[import]") {
  std::string const script = program + vocabulary + "--$DTYPE";
  REQUIRE_THAT(refusal(script), Catch::Contains("'--$DTYPE', which the script does not set "
                                                "(--variable DTYPE=VALUE)"));
  REQUIRE(import_text(script, {.variables = {{"DTYPE", "bf16"}}}).config.model.precision ==
          Precision::bf16);
}

TEST_CASE("DeepSpeed's partition by type counts the embeddings as layers", "[import]") {
  // deepspeed/runtime/pipe/module.py: layers whose class has a name that matches weigh 1, others 0,
  // and the stages are balanced. BLOOM: 70 layers and two embeddings on 12 stages.
  std::string const bloom = program + vocabulary + "--num-layers 70 --global-batch-size 12 ";
  auto const list = [&](std::string const& more, std::int64_t world_size) {
    return import_text(bloom + more, {.world_size = world_size}).config.layout.list;
  };
  REQUIRE(list("--pipeline-model-parallel-size 12 --pp-partition-method "
               "'type:transformer|embedding'",
               12) == std::vector<std::int64_t>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5});
  // One layer a stage, and none beside the embeddings.
  std::vector<std::int64_t> const fine = list(
      "--pipeline-model-parallel-size 72 --global-batch-size 72 --pp-partition-method "
      "'type:transformer|embedding'",
      72);
  REQUIRE((fine.size() == 72 && fine.front() == 0 && fine[1] == 1 && fine.back() == 0));
  // A head of its own is an LMHeadPipe, which does not match.
  REQUIRE(list("--num-layers 7 --pipeline-model-parallel-size 4 --pp-partition-method "
               "'type:transformer|embedding' --untie-embeddings-and-output-weights",
               4) == std::vector<std::int64_t>{1, 2, 2, 2});
  REQUIRE(
      list("--pipeline-model-parallel-size 10 --pp-partition-method type:transformer", 10).empty());
  REQUIRE_THAT(refusal(bloom + "--pipeline-model-parallel-size 10 --pp-partition-method "
                               "'type:transformer|embedding'",
                       {.world_size = 10}),
               Catch::Contains("if the layers that it counts divide into 10 stages"));
}

TEST_CASE("MindSpeed-LLM's lists of layers, empty layers and norms behind are read", "[import]") {
  // examples/mcore/gemma2/tune_gemma2_9b_full_ptd.sh: 42 layers on 8 stages.
  std::string const eight = "--pipeline-model-parallel-size 8 --global-batch-size 8 ";
  MegatronImport const listed = import_text(program + vocabulary + eight +
                                            "--num-layers 42 --num-layer-list 5,5,5,5,5,5,5,7 "
                                            "--post-norm");
  REQUIRE(listed.config.layout.list == std::vector<std::int64_t>{5, 5, 5, 5, 5, 5, 5, 7});
  REQUIRE(listed.config.model.norms == NormPlaces::both);
  REQUIRE_THAT(refusal(program + vocabulary + eight + "--num-layers 42 --num-layer-list 5,5,5,27"),
               Catch::Contains("the layers of each of the 8 stages, cut by commas, 42 together"));
  // Layers 22 and 23 are the last two of the last of four stages of six.
  MegatronImport const empty =
      import_text(program + vocabulary + "--pipeline-model-parallel-size 4 --noop-layers 22,23");
  REQUIRE(empty.config.model.layers == 22);
  REQUIRE(empty.config.layout.list == std::vector<std::int64_t>{6, 6, 6, 4});
  // Virtual stages of three layers: layer 9 is in the fourth.
  MegatronImport const chunks = import_text(
      program + vocabulary +
      "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3 --noop-layers 9 "
      "--global-batch-size 8");
  REQUIRE(chunks.config.layout.list == std::vector<std::int64_t>{3, 3, 3, 2, 3, 3, 3, 3});
  REQUIRE_THAT(refusal(program + vocabulary + "--pipeline-model-parallel-size 4 --noop-layers 24"),
               Catch::Contains("numbers of layers from 0"));
}

TEST_CASE("MindSpeed-LLM's dense layers before experts, shared experts and dispatcher are read",
          "[import]") {
  MegatronImport const import = import_text(
      program + vocabulary +
      "--num-experts 8 --moe-ffn-hidden-size 128 --moe-layer-freq -1 --first-k-dense-replace 3 "
      "--n-shared-experts 2 --norm-topk-prob --moe-router-pre-softmax "
      "--moe-token-dispatcher-type alltoall_seq --disable-bias-linear");
  ExpertsConfig const& experts = import.config.model.experts.value();
  REQUIRE(experts.first_dense == 3);
  REQUIRE(experts.every == 1);
  REQUIRE(experts.shared_ffn_hidden == 256);
  REQUIRE(experts.router.normalise);
  REQUIRE(import.config.dispatch == Dispatch::alltoall);
  REQUIRE(std::ranges::find(import.left_out, std::string{"--moe-token-dispatcher-type"},
                            &Omission::name) != import.left_out.end());
}

TEST_CASE("a flag of another program is left out, a misspelt or shortened one is asked for",
          "[import]") {
  MegatronImport const import =
      import_text(program + vocabulary + "--tokenizer-file a.json --log-level warning");
  REQUIRE(import.left_out.size() >= 2);
  REQUIRE_THAT(refusal(program + vocabulary + "--tensor-parallel-size 2"),
               Catch::Contains("did you mean '--tensor-model-parallel-size'?"));
  REQUIRE_THAT(refusal(program + vocabulary + "--micro-bacth-size 2"),
               Catch::Contains("did you mean '--micro-batch-size'?"));
}

TEST_CASE("flags of MindSpeed-LLM and Pai-Megatron-Patch without effect are left out", "[import]") {
  MegatronImport const import = import_text(
      program + vocabulary +
      "--use-fused-rmsnorm --use-fused-swiglu --use-fused-rotary-pos-emb --no-shared-storage "
      "--handler-name AlpacaStyleInstructionHandler --model-type-hf llama2 --prompt-type llama2 "
      "--patch-tokenizer-type LLamaTokenizer --extra-vocab-size 0 --max-padding-length 2048 "
      "--stage sft --is-instruction-dataset");
  auto const handler =
      std::ranges::find(import.left_out, std::string{"--handler-name"}, &Omission::name);
  REQUIRE(handler != import.left_out.end());
  REQUIRE(handler->effect == OmittedEffect::none);
  REQUIRE(import.config.model.vocabulary == 50304);
  REQUIRE_THAT(refusal(program + "--patch-tokenizer-type LLamaTokenizer"),
               Catch::Contains("the number of tokens of LLamaTokenizer"));
  std::string const split =
      program + vocabulary +
      "--use-flash-attn --attention-dropout 0 --context-parallel-size 2 --context-parallel-algo ";
  REQUIRE(import_text(split + "ulysses_cp_algo").config.parallel.context_method ==
          ContextMethod::ulysses);
  REQUIRE(import_text(split + "megatron_cp_algo").config.parallel.context_method ==
          ContextMethod::ring);
  std::string const few = split + "ulysses_cp_algo --group-query-attention --num-query-groups 1";
  REQUIRE_THAT(refusal(few), Catch::Contains("heads of keys and values for all of its ranks"));
  REQUIRE(import_text(few, {.ignore = {"context-parallel-algo"}}).config.parallel.context == 2);
  REQUIRE_THAT(refusal(split + "hybrid_cp_algo"),
               Catch::Contains("--ignore context-parallel-algo"));
}

}  // namespace
}  // namespace stagecraft::frequent_refusals_test
