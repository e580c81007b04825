#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_flag_table.hpp"
#include "libsim/import/megatron/megatron_import.hpp"
#include "tests/libsim/import/import_notes.hpp"
#include "tests/libsim/import/megatron_round_trip.hpp"

// What import leaves out, and what it says of it. Facts about flags are those of
// NVIDIA/Megatron-LM at d98e8a64.

namespace stagecraft::megatron_left_out_test {
namespace {

std::string const plain =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
    "--max-position-embeddings 512 --micro-batch-size 2 --global-batch-size 64 --bf16 ";
std::string const sparse = plain +
                           "--num-experts 8 --expert-model-parallel-size 4 --disable-bias-linear "
                           "--moe-token-dispatcher-type alltoall ";

MegatronImport read(std::string const& flags, MegatronOptions options = {}) {
  options.world_size = 8;
  return import_megatron(words_of(flags), "flags", options);
}

/// What was left out of a flag; without a name if it was not left out.
Omission left_out(MegatronImport const& import, std::string const& name) {
  auto const found = std::ranges::find(import.left_out, name, &Omission::name);
  return found == import.left_out.end() ? Omission{} : *found;
}

std::string refusal(std::string const& flags, MegatronOptions const& options = {}) {
  try {
    read(flags, options);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("flags that are not modelled are left out with their effect", "[import]") {
  struct Case {
    std::string flags;
    OmittedEffect effect;
    char const* direction;
  };
  using enum OmittedEffect;
  std::string const experts = " --num-experts 8 --disable-bias-linear";
  for (Case const& c :
       std::vector<Case>{{"--kitchen-recipe-number 1", large, "less time"},
                         {"--cross-entropy-loss-fusion", large, "less time and memory"},
                         {"--deterministic-mode", large, "more time"},
                         {"--no-gradient-accumulation-fusion", large, "more time and memory"},
                         {"--fsdp-double-buffer --use-megatron-fsdp", large, "more memory"},
                         {"--optimizer-cpu-offload", large, "less memory, more time"},
                         {"--cuda-graph-impl local", large, "less time, more memory"},
                         {"--cuda-graph-impl none", none, ""},
                         {"--tp-comm-overlap", large, "less time"},
                         {"--overlap-param-gather", none, ""},  // without a distributed optimizer
                         {"--overlap-param-gather --use-distributed-optimizer", large, "less time"},
                         {"--moe-router-fusion", none, ""},  // without experts
                         {"--moe-router-fusion" + experts, large, "less time"},
                         {"--moe-input-jitter-eps 0.1" + experts, small, "more time and memory"},
                         {"--optimizer muon", large, "either way"},
                         {"--fp8-param-gather", large, "less memory"},  // without --fp8-format
                         {"--log-throughput", none, ""},
                         {"--moe-per-layer-logging", none, ""},
                         {"--rl-use-sequence-packing", none, ""},
                         {"--fp8-margin 2", none, ""},
                         {"--kd --num-layers-teacher 24", large, "more time and memory"},
                         {"--stage sft", none, ""},
                         {"--stage dpo", large, "more time and memory"},
                         {"--enable-dsa-indexer --index-topk 2048", large, "either way"},
                         {"--moe-permutation-async-comm", none, ""},  // without experts
                         {"--moe-permutation-async-comm" + experts, large, "less time"},
                         {"--moe-zero-memory disable" + experts, none, ""},
                         {"--train-mode finetune", none, ""}}) {
    CAPTURE(c.flags);
    std::string const name = c.flags.substr(0, c.flags.find(' '));
    Omission const omission = left_out(read(plain + c.flags), name);
    REQUIRE(omission.name == name);
    REQUIRE(omission.effect == c.effect);
    REQUIRE(omission.direction == c.direction);
  }
}

TEST_CASE("flags of 8 bits without a format are noted", "[import]") {
  std::vector<std::string> const notes = read(plain + "--fp8-recipe blockwise").notes;
  REQUIRE(has_note(notes, "--fp8-recipe without --fp8-format: no effect"));
}

TEST_CASE("what is left out is a line for the user", "[import]") {
  REQUIRE(text_of(left_out(read(plain + "--kitchen-recipe-number 1"), "--kitchen-recipe-number")) ==
          "left out: --kitchen-recipe-number 1: large effect, less time; modelled instead: matrix "
          "products in 16 bits");
}

TEST_CASE("flags of products in 4 bits are read, and not together with those of 8", "[import]") {
  std::string const four = plain + "--fp4-format e2m1 ";
  REQUIRE(read(four).config.low_precision == LowPrecision{.recipe = Recipe::nvfp4});
  REQUIRE(read(four + "--fp4-recipe nvfp4 --fp4-param-gather --use-distributed-optimizer")
              .config.low_precision ==
          LowPrecision{.recipe = Recipe::nvfp4, .parameters = LowOrHigh::low});
  REQUIRE(left_out(read(four + "--fp4-recipe custom"), "--fp4-recipe").effect ==
          OmittedEffect::large);
  REQUIRE_THAT(refusal(four + "--fp8-format hybrid"), Catch::Contains("if the other is given"));
  REQUIRE_THAT(refusal(plain + "--fp4-format e4m3"), Catch::Contains("accepted: e2m1"));
  TrainingConfig const config =
      read(four + "--fp4-param-gather --use-distributed-optimizer").config;
  REQUIRE_THAT(megatron_flags(config), Catch::Contains("--fp4-format e2m1 --fp4-recipe nvfp4") &&
                                           Catch::Contains("--fp4-param-gather"));
}

TEST_CASE("flags of what else is in 8 bits are read and written", "[import]") {
  std::string const eight = plain + "--fp8-format e4m3 --fp8-recipe mxfp8 ";
  TrainingConfig const config = read(eight +
                                     "--fp8-output-proj --untie-embeddings-and-output-weights "
                                     "--fp8-dot-product-attention --use-flash-attn --no-fp8-wgrad "
                                     "--first-last-layers-bf16 --num-layers-at-end-in-bf16 2")
                                    .config;
  REQUIRE(config.low_precision ==
          LowPrecision{
              .recipe = Recipe::mxfp8, .attention = true, .head = true, .keep_high = {1, 2, true}});
  REQUIRE_THAT(megatron_flags(config), Catch::Contains("--fp8-output-proj") &&
                                           Catch::Contains("--no-fp8-wgrad") &&
                                           Catch::Contains("--fp8-dot-product-attention") &&
                                           Catch::Contains("--first-last-layers-bf16") &&
                                           Catch::Contains("--num-layers-at-start-in-bf16 1") &&
                                           Catch::Contains("--num-layers-at-end-in-bf16 2"));
  std::string const store = "--activation-func-fp8-input-store ";
  REQUIRE(read(eight + store + "--swiglu").config.low_precision.activation_input);
  REQUIRE(left_out(read(eight + store), "--activation-func-fp8-input-store").direction ==
          "less memory");
  // The head has the embedding's weight, which stays in 16 bits.
  REQUIRE(left_out(read(eight + "--fp8-output-proj"), "--fp8-output-proj").effect ==
          OmittedEffect::large);
}

TEST_CASE("a flag that no table knows is left out, unless it is nearly a known one", "[import]") {
  MegatronImport const import = read(plain + "--zzqx-unheard-of-thing 1 2 --seed 3");
  REQUIRE(import.config.training.seed == 3);
  Omission const omission = left_out(import, "--zzqx-unheard-of-thing");
  REQUIRE(omission.value == "1 2");
  REQUIRE(omission.effect == OmittedEffect::unknown);
  REQUIRE_THAT(refusal(plain + "--zzqx-unheard-of-thing 1", {.strictness = Strictness::strict}),
               Catch::Contains("--zzqx-unheard-of-thing: found an unknown flag"));
  REQUIRE_THAT(refusal(plain + "--tensor-model-paralel-size 2"),
               Catch::Contains("did you mean '--tensor-model-parallel-size'?"));
}

TEST_CASE("flags of another kind of program are refused by its name", "[import]") {
  struct Case {
    char const* flags;
    char const* kind;
  };
  for (Case const& c : std::vector<Case>{{"--hybrid-layer-pattern M*M*", "a hybrid model"},
                                         {"--decoder-num-layers 4", "an encoder and a decoder"},
                                         {"--retro-add-retriever", "a model with retrieval"},
                                         {"--perform-rl-step", "reinforcement learning"},
                                         {"--full-attention-interval 4", "linear attention"},
                                         {"--layerwise-disaggregated-training", "split between"},
                                         {"--eval-only True", "an evaluation"},
                                         {"--no-train 1", "an evaluation"},
                                         {"--patch-size 16", "a model of images"}}) {
    CAPTURE(c.flags);
    REQUIRE_THAT(refusal(plain + c.flags),
                 Catch::Contains(std::string{"as it makes the run "} + c.kind));
  }
  // One line, whatever else reinforcement learning is told.
  std::string const message =
      refusal(plain + "--perform-rl-step --grpo-iterations 1 --langrl-env-config x");
  REQUIRE(std::ranges::count(message, '\n') == 0);
}

TEST_CASE(
    "a file of DeepSpeed that decides what ranks share is left out with a line, unless a flag does",
    "[import]") {
  auto const large = [](std::string const& flags) {
    return std::ranges::count(read(plain + flags).left_out, OmittedEffect::large,
                              &Omission::effect);
  };
  REQUIRE(large("--deepspeed --deepspeed_config zero.json") == 1);
  REQUIRE(large("--deepspeed --deepspeed_config zero.json --zero-stage 1") == 0);
}

TEST_CASE("types of gradients and moments, and overlapped exchanges, are keys", "[import]") {
  REQUIRE(read(plain + "--grad-reduce-in-bf16").config.memory.gradient_dtype == StateType::bf16);
  std::string const aware = plain + "--use-distributed-optimizer --use-precision-aware-optimizer ";
  MemoryConfig const narrow =
      read(aware + "--main-grads-dtype bf16 --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16")
          .config.memory;
  REQUIRE(narrow.gradient_dtype == StateType::bf16);
  REQUIRE(narrow.moments_dtype == StateType::bf16);
  REQUIRE(read(aware).config.memory == MemoryConfig{});
  // One of two moments is not a key.
  MegatronImport const mixed = read(aware + "--exp-avg-dtype bf16");
  REQUIRE(mixed.config.memory.moments_dtype == StateType::fp32);
  REQUIRE(left_out(mixed, "--exp-avg-dtype").effect == OmittedEffect::large);
  REQUIRE(read(sparse + "--overlap-moe-expert-parallel-comm").config.parallel.expert_overlap);
  TrainingConfig const bucket = read(plain + "--overlap-grad-reduce --ddp-bucket-size 1000").config;
  REQUIRE(bucket.parallel.gradient_bucket == 1000);
}

TEST_CASE("types of gradients and moments are written as flags too", "[import]") {
  require_round_trip(
      read(plain + "--use-distributed-optimizer --grad-reduce-in-bf16 "
                   "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16")
          .config);
}

TEST_CASE("the flag --moe-layer-recompute joins the modules that are computed again", "[import]") {
  // transformer_config.py: core_attn is there by default.
  auto const modules = [](std::string const& flags) {
    return read(sparse + flags).config.recompute.front().modules;
  };
  using Names = std::vector<std::string>;
  REQUIRE(modules("--moe-layer-recompute") == Names{"core_attention", "moe"});
  REQUIRE(modules("--moe-layer-recompute --recompute-granularity selective "
                  "--recompute-modules layernorm") == Names{"moe", "layernorm"});
}

TEST_CASE("forced balance is balanced routing, and other dispatchers are DeepEP", "[import]") {
  MegatronImport const balanced = read(sparse + "--moe-router-force-load-balancing");
  REQUIRE(balanced.config.routing.is_balanced());
  REQUIRE(left_out(balanced, "--moe-router-force-load-balancing").name.empty());
  std::string const flex =
      sparse + "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend ";
  REQUIRE(read(flex + "deepep").config.dispatch == Dispatch::deepep);
  MegatronImport const hybrid = read(flex + "hybridep");
  REQUIRE(hybrid.config.dispatch == Dispatch::deepep);
  REQUIRE(left_out(hybrid, "--moe-flex-dispatcher-backend").value == "hybridep");
}

TEST_CASE("split sequences are kept, and dropout in their attention left out", "[import]") {
  // Megatron-LM's test gpt3_mcore_tp2_cp2_pp2_ep2_te_4experts2parallel leaves dropout at 0.1.
  MegatronImport const split = read(plain + "--context-parallel-size 2 --attention-backend flash");
  REQUIRE(split.config.parallel.context == 2);
  REQUIRE(split.config.model.attention_dropout == 0.0);
  REQUIRE(left_out(split, "--attention-dropout").effect == OmittedEffect::large);
}

TEST_CASE("the vocabulary is not padded where the tokenizer's is not", "[import]") {
  for (std::string const flag : {"--no-pad-vocab-size", "--disable-pad-vocab-size"}) {
    REQUIRE(read(plain + flag).config.model.vocabulary_multiple == 1);
  }
}

TEST_CASE("no flag has two meanings, and each effect says which way", "[import]") {
  std::vector<std::string> const names = flag_names();
  REQUIRE(names.size() > 900);
  for (std::string const& name : names) {
    MegatronFlag const& flag = *find_flag(name.substr(2));
    using Effect = MegatronFlag::Effect;
    if (flag.effect == Effect::modelled || flag.effect == Effect::none) continue;
    CAPTURE(name);
    REQUIRE_FALSE(flag.direction.empty());
    REQUIRE_FALSE(flag.instead.empty());
  }
}

}  // namespace
}  // namespace stagecraft::megatron_left_out_test
