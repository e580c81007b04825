#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "libsim/import/megatron/megatron_import.hpp"
#include "tests/libsim/import/import_notes.hpp"
#include "tests/libsim/import/megatron_round_trip.hpp"

// Experts as Megatron-DeepSpeed, megablocks and MindSpeed-LLM spell them. Each expected value is
// what the program's own source makes of the flag.

namespace stagecraft::megatron_foreign_experts_test {
namespace {

std::string const dense =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 512 --fp16 --lr 1e-4 ";

MegatronImport read(std::string const& flags, std::int64_t world_size = 64) {
  MegatronOptions options;
  options.world_size = world_size;
  return import_megatron(words_of(dense + flags), "flags", options);
}

Omission left_out(MegatronImport const& import, std::string_view name) {
  auto const found = std::ranges::find(import.left_out, name, &Omission::name);
  return found == import.left_out.end() ? Omission{} : *found;
}

std::string refusal(std::string const& flags) {
  try {
    read(flags);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "accepted";
}

std::string const deepspeed =
    "--deepspeed --num-experts 128 --moe-expert-parallel-size 64 --moe-loss-coeff 0.01 "
    "--moe-train-capacity-factor 1.25 --moe-eval-capacity-factor 1.0 --moe-min-capacity 4 "
    "--create-moe-param-group ";

TEST_CASE("DeepSpeed's experts are in every second layer and choose once", "[import]") {
  // examples_deepspeed/MoE/ds_pretrain_gpt_1.3B_MoE128.sh. megatron/arguments.py: --topk 1,
  // --expert-interval 2. transformer.py, get_num_experts_per_layer: layer numbers from 1 that the
  // interval divides. sharded_moe.py: TopKGate is in fp32; top1gating does not normalise.
  TrainingConfig const config = read(deepspeed).config;
  ExpertsConfig const& experts = config.model.experts.value();
  REQUIRE(experts.count == 128);
  REQUIRE(experts.per_token == 1);
  REQUIRE(experts.ffn_hidden == 4 * 2048);
  for (int layer = 0; layer < 24; ++layer) REQUIRE(experts.is_sparse(layer) == (layer % 2 == 1));
  REQUIRE(config.parallel.expert == 64);
  REQUIRE(config.parallel.expert_tensor == 1);
  REQUIRE(config.dispatch == Dispatch::alltoall);
  REQUIRE(config.routing.capacity == 1.25);
  REQUIRE(config.routing.pads);
  REQUIRE(experts.router.order == RouterOrder::before);
  REQUIRE_FALSE(experts.router.normalise);
  REQUIRE(experts.router.precision == RouterPrecision::fp32);
  REQUIRE(experts.router.loss == RouterLoss::auxiliary);
  REQUIRE(experts.router.loss_coefficient == 0.01);
  REQUIRE_FALSE(experts.grouped);
}

TEST_CASE("DeepSpeed's defaults and switches of experts are read", "[import]") {
  std::string const few = "--deepspeed --num-experts 8 --moe-expert-parallel-size 4 ";
  TrainingConfig const plain = read(few).config;
  REQUIRE(plain.routing.capacity == 1);                          // --moe-train-capacity-factor
  REQUIRE(plain.model.experts->router.loss_coefficient == 0.1);  // --moe-loss-coeff
  TrainingConfig const other =
      read(few + "--disable-moe-token-dropping --topk 2 --expert-interval 4").config;
  REQUIRE_FALSE(other.routing.capacity.has_value());
  REQUIRE(other.model.experts->per_token == 2);
  REQUIRE(other.model.experts->router.normalise);  // top2gating divides by the sum of both
  for (int layer = 0; layer < 24; ++layer) {
    REQUIRE(other.model.experts->is_sparse(layer) == ((layer + 1) % 4 == 0));
  }
  std::string const split = few + "--tensor-model-parallel-size 2 --sequence-parallel ";
  REQUIRE(read(split).config.parallel.expert_tensor == 1);
  MegatronImport const sliced = read(split + "--enable-expert-tensor-parallelism");
  REQUIRE(sliced.config.parallel.expert_tensor == 2);
  REQUIRE(left_out(sliced, "--num-experts").consequence ==
          "modelled instead: experts without "
          "biases");
  // pretrain_gpt.py: a model with at most one expert is dense.
  REQUIRE_FALSE(read("--deepspeed --num-experts 1 --moe-expert-parallel-size 1")
                    .config.model.experts.has_value());
  REQUIRE(read("--num-experts 1 --moe-router-topk 1").config.model.experts.has_value());
}

TEST_CASE("DeepSpeed's pyramids and residual experts say what is modelled instead", "[import]") {
  // ds_pretrain_gpt_350M_PR-MoE32or64.sh.
  MegatronImport const import = read(
      "--deepspeed --num-experts 32 32 32 32 32 32 32 32 32 32 64 64 --mlp-type residual "
      "--moe-expert-parallel-size 64");
  ExpertsConfig const& experts = import.config.model.experts.value();
  REQUIRE(experts.count == 64);
  REQUIRE(left_out(import, "--num-experts").direction == "less memory");
  REQUIRE(experts.shared_ffn_hidden == experts.ffn_hidden);
  REQUIRE(experts.shared_gate);
  REQUIRE(left_out(import, "--mlp-type").effect == OmittedEffect::small);
  REQUIRE_THAT(refusal("--deepspeed --num-experts 8 --mlp-type wide"),
               Catch::Contains("--mlp-type: found 'wide'; accepted: standard, residual"));
  REQUIRE_THAT(refusal("--deepspeed --num-experts 8 x"), Catch::Contains("whole numbers from 0"));
  // argparse: "expected one argument", or "expected at least one argument".
  REQUIRE_THAT(refusal("--num-experts"), Catch::Contains("--num-experts: found no value"));
}

TEST_CASE("megablocks' experts lie on the data-parallel ranks", "[import]") {
  // exp/dmoe/dmoe_46m_8gpu.sh; megablocks/layers/mpu.py: min(ranks, experts) shards, and the rest
  // of the ranks splits the hidden width. arguments.py: one choice, loss weight 0.1.
  std::string const flags = "--moe-num-experts=64 --moe-loss-weight=0.1 --moe-top-k=1 ";
  TrainingConfig const alone = read(flags + "--moe-capacity-factor=0", 8).config;
  REQUIRE(alone.model.experts->count == 64);
  REQUIRE(alone.model.experts->per_token == 1);
  REQUIRE(alone.model.experts->is_sparse(0));
  REQUIRE(alone.parallel.expert == 1);
  REQUIRE_FALSE(alone.routing.capacity.has_value());
  REQUIRE_FALSE(alone.model.experts->router.normalise);
  REQUIRE(read(flags + "--moe-expert-model-parallelism", 8).config.parallel.expert == 8);
  TrainingConfig const many =
      read("--moe-num-experts=4 --moe-expert-model-parallelism --disable-bias-linear", 8).config;
  REQUIRE(many.parallel.expert == 4);
  REQUIRE(many.parallel.expert_tensor == 2);
  REQUIRE_THAT(refusal("--moe-num-experts=48 --moe-expert-model-parallelism"),
               Catch::Contains("experts (48) that the data-parallel ranks (64) divide"));
  // No choice is dropped where every expert has room for all tokens.
  MegatronImport const wide = read(flags + "--moe-capacity-factor=16384", 8);
  REQUIRE(wide.config.routing.capacity == 64);
  REQUIRE(left_out(wide, "--moe-expert-capacity-factor").direction == "more memory");
}

TEST_CASE("MindSpeed-LLM's names of experts are read", "[import]") {
  // mindspeed_llm/features_manager/arguments/deprecated_args.py, moe/shared_expert.py,
  // moe/moe_router.py; mindspeed/arguments.py, --moe-tp-extend-ep: the tensor group extends the
  // expert group in place of sharding weights.
  std::string const flags =
      "--num-experts 64 --expert-model-parallel-size 4 --tensor-model-parallel-size 2 "
      "--sequence-parallel --disable-bias-linear --moe-intermediate-size 512 "
      "--moe-token-dispatcher-type alltoall --n-shared-experts 1 --shared-expert-gate "
      "--first-k-dense-replace -1 --moe-layer-freq -1 --router-gating-in-fp32 ";
  TrainingConfig const config = read(flags + "--moe-tp-extend-ep").config;
  ExpertsConfig const& experts = config.model.experts.value();
  REQUIRE(experts.ffn_hidden == 512);
  REQUIRE(experts.shared_ffn_hidden == 512);
  REQUIRE(experts.shared_gate);
  REQUIRE(experts.first_dense == 0);
  REQUIRE(experts.every == 1);
  REQUIRE(experts.router.precision == RouterPrecision::fp32);
  REQUIRE(config.parallel.expert == 8);
  REQUIRE(config.parallel.expert_tensor == 1);
  REQUIRE(read(flags).config.parallel.expert_tensor == 2);
  MegatronImport const root = read(flags + "--moe-router-score-function sqrtsoftplus");
  REQUIRE(root.config.model.experts->router.score == RouterScore::sigmoid);
  REQUIRE(left_out(root, "--moe-router-score-function").effect == OmittedEffect::small);
  MegatronImport const sandwich = read(flags + "--post-norm --normalization RMSNorm");
  REQUIRE(sandwich.config.model.norms == NormPlaces::pre);
  REQUIRE(left_out(sandwich, "--post-norm").direction == "more time and memory");
}

TEST_CASE("choices that do not divide by the experts are spread as evenly as can be", "[import]") {
  // 4 x 2048 x 8 choices and 384 experts: 170.67 of each.
  MegatronImport const import = read(
      "--num-experts 384 --moe-router-topk 8 --expert-model-parallel-size 8 "
      "--disable-bias-linear --moe-token-dispatcher-type alltoall");
  REQUIRE(import.config.routing.factor == 1);
  REQUIRE(has_note(import.notes, "the 65536 choices of a rank's tokens do not divide by 384"));
  REQUIRE_FALSE(read("--num-experts 256 --moe-router-topk 8 --disable-bias-linear")
                    .config.routing.factor.has_value());
}

}  // namespace
}  // namespace stagecraft::megatron_foreign_experts_test
