#include "libsim/import/megatron_flags.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/import/megatron_gaps.hpp"
#include "libsim/import/megatron_import.hpp"
#include "libsim/import/pipeline_layout.hpp"
#include "libsim/plan/training_config_checks.hpp"
#include "libsim/run/config_files.hpp"
#include "tests/libsim/engine/random_runs.hpp"
#include "tests/libsim/import/megatron_round_trip.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft {
namespace {

/// `config` with what megatron_gaps() lists replaced by what the flags say, and settings without
/// effect as the readers store them.
TrainingConfig as_megatron_has_it(TrainingConfig config) {
  ModelConfig& model = config.model;
  ParallelLayout& parallel = config.parallel;
  ScheduleConfig& schedule = config.schedule;
  if (model.activation == Activation::relu) model.activation = Activation::gelu;
  if (model.precision == Precision::fp64) model.precision = Precision::fp32;
  if (!find_windows(model)) model.pattern.clear();
  model.residual = Residual::sequential;
  model.softmax_dropout = SoftmaxDropout::separate;
  model.dropout_mask = DropoutMask::stored;
  if (model.attention_dropout == model.dropout) model.attention_dropout.reset();
  parallel.sequence = parallel.sequence && parallel.tensor > 1;
  bool const has_empty_end = config.layout.first == 0 || config.layout.last == 0;
  if (config.layout.kind == LayerSplit::Kind::list || has_empty_end) {
    config.layout = {.kind = LayerSplit::Kind::list,
                     .first = {},
                     .last = {},
                     .list = layers_of_virtual_stages(config)};
  }
  bool const is_interleaved = parallel.interleave > 1;
  schedule.kind = is_interleaved ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  if (!is_interleaved) schedule.p2p = P2p::blocking;
  if (!is_interleaved) schedule.group = 0;
  if (is_interleaved && schedule.group == 0) schedule.group = parallel.pipeline;
  schedule.scatter_gather = parallel.sequence || parallel.tensor == 1 || parallel.pipeline == 1;
  config.recompute.resize(1);
  config.recompute.front().store_microbatches = {};
  config.memory.output_deallocation = true;
  return config;
}

std::vector<ShellWord> words_of(std::string const& line) {
  std::vector<ShellWord> words;
  std::istringstream stream{line};
  for (std::string word; stream >> word;) words.push_back({word, 0, 0});
  return words;
}

TrainingConfig imported(TrainingConfig const& config) {
  MegatronOptions options;
  options.world_size = world_size(config.parallel);
  return import_megatron(words_of(megatron_flags(config)), "flags", options).config;
}

void require_round_trip(TrainingConfig const& config) {
  CAPTURE(megatron_flags(config));
  TrainingConfig const wanted = as_megatron_has_it(config);
  REQUIRE(problems_of(wanted).empty());
  REQUIRE(settled_with_stack(imported(config)) == settled_with_stack(wanted));
  if (!megatron_gaps(config).empty()) return;
  REQUIRE(fingerprint(make_plan(as_settled(wanted))) == fingerprint(make_plan(as_settled(config))));
}

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
  REQUIRE_FALSE(is_launchable(config, MegatronVersion::of_2022));
}

TEST_CASE("the flags of runs on an edge of what is legal read back", "[import]") {
  for (OddRun const& run : odd_runs()) {
    CAPTURE(run.name);
    require_round_trip(run.config);
  }
}

TEST_CASE("the flag --empty-unused-memory-level says when the cache is emptied", "[import]") {
  TrainingConfig config = run_of(paper_models[1], RecomputeGranularity::selective, true);
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
  model.precision = Precision::bf16;
  config.parallel = {};
  config.parallel.tensor = 1 << seed % 3;
  config.parallel.sequence = config.parallel.tensor > 1;
  config.parallel.data = 4;
  config.parallel.expert = 1 << seed / 3 % 3;
  config.parallel.expert_tensor = seed % 11 == 0 ? 1 : std::min(2, config.parallel.tensor);
  model.biases = config.parallel.expert_tensor == 1 && experts.shared_ffn_hidden == 0;
  experts.biases = model.biases;
  model.experts = experts;
  if (seed % 6 == 0) config.routing.capacity = 1.25;
  if (seed % 6 == 1) {
    config.dispatch = Dispatch::deepep;
    config.parallel.expert_tensor = 1;
  }
  if (seed % 6 == 2 && config.parallel.expert_tensor == 1) config.dispatch = Dispatch::allgather;
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
  ModelConfig model = import_megatron(words_of(line), "flags", options).config.model;
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
  for (char const* const bad :
       {"", "0", "-1", "[0]*3", "[2]*4", "[1]*", "[1]*9999999999999", "[1]x4", "[]*4", "[1]*3+"}) {
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
  REQUIRE(with("").experts->router.loss == RouterLoss::none);
  REQUIRE_THROWS_WITH(
      with(" --moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 0.1 0.1"),
      Catch::Contains("--moe-router-load-balancing-type"));
  REQUIRE(with(" --moe-shared-expert-intermediate-size 32 --moe-shared-expert-gate")
              .experts->shared_gate);
  REQUIRE(with(" --moe-apply-probs-on-input").experts->probabilities_on == ProbabilitiesOn::input);
  REQUIRE(with(" --mtp-num-layers 1 --position-embedding-type rope").predicted_tokens == 1);
}

TEST_CASE("the flags of 175B with sequence parallelism are those that one would type", "[import]") {
  REQUIRE(megatron_flags(run_of(paper_models[1], RecomputeGranularity::selective, true)) ==
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
}  // namespace stagecraft
