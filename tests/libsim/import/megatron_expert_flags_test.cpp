#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/import/layer_windows.hpp"
#include "libsim/import/megatron/megatron_experts.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/run/config_files.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/import/megatron_round_trip.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::megatron_expert_flags_test {
namespace {

/// A run of a model with experts, in one of many ways.
TrainingConfig expert_run(std::uint32_t seed) {
  TrainingConfig config = RandomRuns{1}.config(1);
  ModelConfig& model = config.model;
  model = gpt(4, 64, 4, 128, 1000);
  ExpertsConfig experts{.count = 8, .per_token = 1 + seed % 2, .ffn_hidden = 32};
  experts.shared_ffn_hidden = seed % 3 == 0 ? 64 : 0;
  experts.first_dense = seed % 5;
  if (experts.first_dense == 4) experts.first_dense = 0;
  if (experts.first_dense == 0 && seed % 2 == 0) {
    experts.every = 2;
    experts.offset = seed / 2 % 2;
  }
  RouterConfig& router = experts.router;
  router.score = seed % 7 < 3 ? RouterScore::sigmoid : RouterScore::softmax;
  if (seed % 7 == 6) {
    router.order = RouterOrder::before;
    router.normalise = false;
  }
  if (seed % 7 == 0) router.bias = true;
  if (seed % 4 == 1) router.scaling = 2.5;
  if (seed % 4 == 2) {
    router.groups = 4;
    router.groups_per_token = 2;
  }
  if (seed % 3 == 1) router.precision = RouterPrecision::model;
  router.loss = static_cast<RouterLoss>(seed % 4);
  if (router.loss != RouterLoss::none) router.loss_coefficient = 0.01;
  model.precision = Precision::bf16;
  config.parallel = {};
  config.parallel.tensor = 1 << seed % 3;
  config.parallel.sequence = config.parallel.tensor > 1;
  config.parallel.data = 4;
  config.parallel.expert = 1 << seed / 3 % 3;
  config.parallel.expert_tensor = seed % 11 == 0 ? 1 : std::min(2, config.parallel.tensor);
  model.biases = config.parallel.expert_tensor == 1 && experts.shared_ffn_hidden == 0;
  experts.biases = model.biases;
  experts.fused_weighting = fuses_weighting(model.activation);
  experts.grouped = seed % 5 != 0;
  model.experts = experts;
  if (seed % 6 == 0) config.routing.capacity = 1.25;
  if (seed % 6 == 1) {
    config.dispatch = Dispatch::deepep;
    config.parallel.dispatch_multiprocessors = seed % 12 == 1 ? 24 : 20;
  }
  if (seed % 6 == 2) config.dispatch = Dispatch::allgather;
  config.parallel.shared_expert_overlap =
      experts.shared_ffn_hidden > 0 && config.dispatch == Dispatch::alltoall && seed % 2 == 0;
  if (seed % 12 == 6) config.routing.drop = DropBy::position;
  if (seed % 24 == 6 && config.parallel.expert_tensor == 1 && !experts.biases) {
    config.routing.pads = false;
  }
  config.schedule = {};
  config.layout = {};
  config.recompute = {RecomputePolicy{}};
  config.batch = {.global = 8, .micro = 2};
  config.memory = {};
  return config;
}

TEST_CASE("a capacity of a microbatch has no flag", "[import]") {
  TrainingConfig config = expert_run(0);  // which has a capacity
  config.routing.is_of_microbatch = true;
  REQUIRE(megatron_gaps(config) ==
          std::vector<std::string>{
              "routing.scope microbatch: the flags say capacities of each rank's tokens"});
}

TEST_CASE("shared experts beside exchanges have a flag", "[import]") {
  TrainingConfig config = expert_run(0);  // which has shared experts
  REQUIRE(config.parallel.shared_expert_overlap);
  REQUIRE_THAT(megatron_flags(config), Catch::Contains("--moe-shared-expert-overlap"));
  config.parallel.shared_expert_overlap = false;
  REQUIRE_THAT(megatron_flags(config), !Catch::Contains("--moe-shared-expert-overlap"));
}

TEST_CASE("the flags of runs with experts read back to the same runs", "[import]") {
  int checked = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    TrainingConfig const config = expert_run(seed);
    CAPTURE(seed);
    REQUIRE(problems_of(config).empty());
    REQUIRE(megatron_gaps(config).empty());
    require_round_trip(config);
    REQUIRE(imported(config).model.experts == config.model.experts);
    REQUIRE(imported(config).parallel == config.parallel);
    ++checked;
  }
  REQUIRE(checked == 400);
}

TEST_CASE("the flags of windows, sinks and a clamped SwiGLU read back", "[import]") {
  TrainingConfig config = expert_run(22);
  ModelConfig& model = config.model;
  model.layers = 6;
  model.attention = Attention::flash;
  model.sinks = true;
  model.activation = Activation::swiglu_clamped;
  model.experts->fused_weighting = true;
  auto const with_windows = [&](std::vector<bool> const& windowed) {
    TrainingConfig run = config;
    set_windows({.size = 24, .windowed = windowed}, run.model);
    return run;
  };
  auto const require_flags = [&](TrainingConfig const& run, std::string const& text) {
    REQUIRE_THAT(megatron_flags(run), Catch::Contains(text));
    REQUIRE(megatron_gaps(run).empty());
    require_round_trip(run);
    REQUIRE(imported(run).model == run.model);
  };
  require_flags(config, "--softmax-type learnable");
  require_flags(config, "--quick-geglu");
  require_flags(config, "--glu-linear-offset 1 --activation-func-clamp-value 7");
  require_flags(with_windows({true, true, true, true, true, true}), "--window-size 23,0");
  require_flags(with_windows({true, false, true, false, true, false}),
                "--window-size 23,0 --window-attn-skip-freq 2");
  require_flags(with_windows({true, true, false, true, true, false}), "skip-freq 3");
  require_flags(with_windows({false, true, true, true, true, true}), "skip-freq [0]*1+[1]*5");
  REQUIRE_FALSE(megatron_gaps(config, MegatronVersion::of_2022).empty());
}

TEST_CASE("Megatron-LM's flags of GPT-OSS 120B are that model", "[import]") {
  // The flags of Megatron-LM's examples/post_training/modelopt/conf/openai/gpt-oss-120b.sh.
  std::string const line =
      "--micro-batch-size 1 --global-batch-size 8 --lr 1e-4 --bf16 --num-layers 36 "
      "--hidden-size 2880 --ffn-hidden-size 2880 --num-attention-heads 64 "
      "--group-query-attention --num-query-groups 8 --kv-channels 64 --seq-length 4096 "
      "--max-position-embeddings 40960 --untie-embeddings-and-output-weights "
      "--normalization RMSNorm --position-embedding-type rope --rotary-base 150000 "
      "--tokenizer-type HuggingFaceTokenizer --padded-vocab-size 201088 --hidden-dropout 0 "
      "--attention-dropout 0 --num-experts 128 --moe-router-topk 4 --moe-ffn-hidden-size 2880 "
      "--moe-router-dtype fp32 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.0 "
      "--moe-token-dispatcher-type alltoall --quick-geglu --glu-linear-offset 1.0 "
      "--softmax-type learnable --window-attn-skip-freq 2 --activation-func-clamp-value 7.0 "
      "--window-size 127,0 --expert-model-parallel-size 8";
  MegatronOptions options;
  options.world_size = 8;
  // The file's experts compute together.
  ModelConfig model =
      import_megatron(words_of(line + " --moe-grouped-gemm"), "flags", options).config.model;
  REQUIRE(parameter_count(model) == 116'829'156'672);
  ModelConfig const file =
      load_model_file(STAGECRAFT_SOURCE_DIR "/configs/models/gpt-oss-120b.yaml");
  REQUIRE(model.experts == file.experts);
  REQUIRE(model.pattern == file.pattern);
  REQUIRE(model.activation == file.activation);
}

TEST_CASE("layers with experts are a list of 0 and 1, or every n-th", "[import]") {
  using Layers = std::vector<bool>;
  REQUIRE(layer_frequency({.count = 8, .first_dense = 3}, 61) == "[0]*3+[1]*58");
  REQUIRE(parse_layer_frequency("([0]*1+[1]*2)", 3) == Layers{false, true, true});
  REQUIRE(parse_layer_frequency("[0,1]*2", 4) == Layers{false, true, false, true});
  REQUIRE(parse_layer_frequency("2", 3) ==
          Layers{true, false, true});  // i % N == 0, as in Megatron
  REQUIRE(parse_layer_frequency("-1", 3) == Layers{true, true, true});
  for (char const* const bad :
       {"", "0", "[0]*3", "[2]*4", "[1]*", "[1]*9999999999999", "[1]x4", "[]*4", "[1]*3+"}) {
    CAPTURE(bad);
    REQUIRE(!parse_layer_frequency(bad, 4));
  }
}

TEST_CASE("flags of dispatchers and of what experts drop are read", "[import]") {
  MegatronOptions options;
  options.world_size = 8;
  std::string const line =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
      "--max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 16 --bf16 "
      "--num-experts 8 --lr 1e-4 --disable-bias-linear --expert-model-parallel-size 4";
  auto const read = [&](std::string const& flags) {
    return import_megatron(words_of(line + flags), "flags", options).config;
  };
  REQUIRE(read("").dispatch == Dispatch::allgather);  // Megatron-LM's default
  REQUIRE(read(" --moe-token-dispatcher-type allgather").dispatch == Dispatch::allgather);
  REQUIRE(read(" --moe-token-dispatcher-type alltoall").dispatch == Dispatch::alltoall);
  REQUIRE(read(" --tensor-model-parallel-size 2 --sequence-parallel").dispatch ==
          Dispatch::allgather);  // of experts that two ranks share each
  TrainingConfig const dropping =
      read(" --moe-expert-capacity-factor 1.5 --moe-token-drop-policy position");
  REQUIRE(dropping.routing.capacity == 1.5);
  REQUIRE_FALSE(dropping.routing.pads);
  REQUIRE(dropping.routing.drop == DropBy::position);
  REQUIRE(
      read(" --moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity").routing.pads);
  REQUIRE_THROWS_WITH(read(" --moe-token-drop-policy last"),
                      Catch::Contains("--moe-token-drop-policy: found 'last'; accepted: probs, "
                                      "position"));
}

TEST_CASE("Megatron-LM splits each expert as the tensor ranks do unless told otherwise",
          "[import]") {
  MegatronOptions options;
  options.world_size = 16;
  std::string const line =
      "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 "
      "--max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 16 --bf16 "
      "--tensor-model-parallel-size 2 --sequence-parallel --num-experts 8 --lr 1e-4 "
      "--disable-bias-linear "
      "--expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall";
  TrainingConfig const config = import_megatron(words_of(line), "flags", options).config;
  REQUIRE(config.parallel.expert == 4);
  REQUIRE(config.parallel.expert_tensor == 2);
  REQUIRE(config.model.experts->per_token == 2);
  REQUIRE(config.model.experts->ffn_hidden == 256);
  REQUIRE(config.model.experts->router.precision == RouterPrecision::model);
  auto const with = [&](std::string const& flags) {
    return import_megatron(words_of(line + flags), "f", options).config.model;
  };
  RouterConfig const router =
      with(" --moe-aux-loss-coeff 0.01 --moe-z-loss-coeff 1e-3").experts->router;
  REQUIRE(router.loss == RouterLoss::auxiliary);  // Megatron-LM's default type
  REQUIRE(router.loss_coefficient == 0.01);
  REQUIRE(router.z_loss == 1e-3);
  REQUIRE(with(" --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.1")
              .experts->router.loss == RouterLoss::sequence_auxiliary);
  REQUIRE(with(" --moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 0.1")
              .experts->router.loss == RouterLoss::global_auxiliary);
  REQUIRE(with("").experts->router.loss == RouterLoss::none);
  // Of two losses the first is modelled.
  REQUIRE(
      with(" --moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 0.1 0.1")
          .experts->router.loss == RouterLoss::auxiliary);
  for (std::string const coefficient : {"inf", "nan", "1e6", "-0.1", "0.1x"}) {
    INFO(coefficient);
    REQUIRE_THROWS_WITH(with(" --moe-aux-loss-coeff " + coefficient),
                        Catch::Contains("--moe-aux-loss-coeff: found") &&
                            Catch::Contains("numbers from 0 to below 1000000"));
  }
  REQUIRE(with(" --moe-shared-expert-intermediate-size 32 --moe-shared-expert-gate")
              .experts->shared_gate);
  REQUIRE(with(" --moe-apply-probs-on-input").experts->probabilities_on == ProbabilitiesOn::input);
  REQUIRE(with(" --mtp-num-layers 1 --position-embedding-type rope").predicted_tokens == 1);
}

}  // namespace
}  // namespace stagecraft::megatron_expert_flags_test
