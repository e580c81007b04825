#include "libsim/launch/launch_framework.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "libsim/import/frameworks/framework_import.hpp"
#include "libsim/import/omissions.hpp"

namespace stagecraft::launch_framework_test {

TEST_CASE("a software stack names the framework that starts its runs", "[launch]") {
  auto const [stack, framework] =
      GENERATE(table<char const*, char const*>({{"megatron-core", "megatron-core"},
                                                {"megatron-core-local", "megatron-core"},
                                                {"megatron-2021", "megatron-2022"},
                                                {"megatron-deepspeed-2022", "megatron-2022"},
                                                {"torchtitan-2025", "torchtitan"},
                                                {"deepspeed", "deepspeed"}}));
  REQUIRE(framework_of_stack(stack)->name == framework);
  REQUIRE(framework_of_stack("nanotron") == nullptr);
}

TEST_CASE("what a framework's model lacks keeps no plan from being started, what a plan needs does",
          "[launch]") {
  LaunchFramework const& framework = *framework_named("megatron-2022");
  TrainingConfig config;
  config.model.norm = Norm::rmsnorm;  // Megatron-LM of 2022 has LayerNorm
  REQUIRE_FALSE(framework.gaps(config, 8).empty());
  REQUIRE(is_launchable(config, framework, 8));
  config.parallel.context = 2;
  REQUIRE_FALSE(is_launchable(config, framework, 8));
}

TEST_CASE("Accelerate's fsdp1 has copies of units for each node, and no wider groups", "[launch]") {
  // fully_sharded_data_parallel.py: HYBRID_SHARD shares "within a node".
  TrainingConfig config;
  config.parallel.data = 32;
  config.sharding.kind = ShardingKind::fsdp1;
  LaunchFramework const& framework = *framework_named("accelerate");
  auto const gaps = [&](int group) {
    config.sharding.group = group;
    return framework.gaps(config, 8);
  };
  REQUIRE(gaps(8) == gaps(0));
  REQUIRE(gaps(16).size() == gaps(0).size() + 1);
}

TEST_CASE("a framework's Llama has no biases of queries, keys and values, and no window",
          "[launch]") {
  auto const name = GENERATE("torchtitan", "deepspeed", "accelerate");
  CAPTURE(name);
  TrainingConfig config;
  ModelConfig& model = config.model;
  model.norm = Norm::rmsnorm;
  model.activation = Activation::swiglu;
  model.positions = Positions::rotary;
  model.attention = Attention::flash;
  model.precision = Precision::bf16;
  model.biases = model.tied_embeddings = false;
  model.dropout = 0;
  model.heads = 4;
  model.head_dim = 8;
  model.hidden = 32;
  LaunchFramework const& framework = *framework_named(name);
  REQUIRE(framework.gaps_of_model(config).empty());
  // Qwen2's projections have biases, Mistral 7B's tokens attend to 4,096 before them.
  // GLM 4 rotates half of each head.
  int const family = GENERATE(0, 1, 2);
  if (family == 0) model.qkv_bias = true;
  if (family == 1) model.window = 4096;
  if (family == 2) model.rotary_fraction = 0.5;
  REQUIRE(framework.gaps_of_model(config).size() == 1);
}

TEST_CASE("torchtitan's job converts linear layers as the run's recipe says, but for the head",
          "[launch]") {
  // torchtitan 0.2.2, components/quantization/float8.py and utils.py, module_filter_fn.
  TrainingConfig config;
  config.model.layers = 4;
  config.low_precision = {.recipe = Recipe::current, .implementation = LowLibrary::torchao};
  config.low_precision.keep_high = {.first = 1, .last = 1};
  config.sharding = default_sharding(ShardingKind::fsdp2);
  LaunchFramework const& framework = *framework_named("torchtitan");
  auto const job = [&] {
    LaunchJob launched;
    launched.config = config;
    launched.is_compiled = true;
    return framework.files(launched)[1].text;
  };
  auto const contains = [](std::string const& text) { return Catch::Contains(text); };
  std::string const filter = "filter_fqns = [\"output\", \"layers.0.\", \"layers.3.\"]\n";
  CHECK_THAT(job(),
             contains("converters = [\"quantize.linear.float8\"]\n") &&
                 contains("[quantize.linear.float8]\nrecipe_name = \"tensorwise\"\n" + filter));
  CHECK_THAT(framework.layout_flags(config),
             contains("--model.converters quantize.linear.float8 "
                      "--quantize.linear.float8.recipe_name tensorwise "
                      "--quantize.linear.float8.filter_fqns output,layers.0.,layers.3."));
  config.sharding.parameter_dtype = UnitType::low;
  CHECK_THAT(job(), contains("enable_fsdp_float8_all_gather = true\n"
                             "precompute_float8_dynamic_scale_for_fsdp = true\n" +
                             filter));
  CHECK_THAT(job(), !contains("recipe_name"));
  // The import reads the job of a flavor back.
  config.model.layers = 32;
  config.model.hidden = 4096;
  config.model.heads = 32;
  config.model.kv_heads = 8;
  config.model.ffn_hidden = 14336;
  config.model.vocabulary = 128256;
  config.model.sequence = 8192;
  config.model.rotary_scaling = 8;
  config.parallel.data = 8;
  config.batch.global = 8;
  Omissions omissions{{}};
  auto const read =
      import_framework(torchtitan_framework, job(), "job.toml", {}, {.world_size = 8}, omissions);
  CHECK(read.sections["low_precision"] ==
        nlohmann::ordered_json::parse(R"({"recipe": "current", "implementation": "torchao",
                                          "keep_high": {"first": 1, "last": 1}})"));
  CHECK(read.sections["sharding"]["parameter_dtype"] == "low");
  std::size_t const gaps = framework.gaps(config, 8).size();
  config.low_precision.implementation = LowLibrary::transformer_engine;
  CHECK(framework.gaps(config, 8).size() == gaps + 1);
  config.low_precision.recipe = Recipe::none;
  CHECK_THAT(job(), !contains("converters"));
}

}  // namespace stagecraft::launch_framework_test
