#include "libsim/import/frameworks/framework_import.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace stagecraft::framework_import_test {
namespace {

FrameworkImport read(Framework const& framework,
                     std::string const& text,
                     FrameworkOptions options,
                     std::vector<std::string> const& settings = {},
                     Strictness strictness = Strictness::lenient) {
  Omissions omissions{{}, strictness};
  if (options.model.empty()) options.model = "llama2-7b";
  return import_framework(framework, text, "file", settings, options, omissions);
}

FrameworkImport deepspeed(std::string const& text, FrameworkOptions options = {.world_size = 16}) {
  return read(deepspeed_framework, text, std::move(options));
}

FrameworkImport torchtitan(std::string const& text, std::vector<std::string> const& settings = {}) {
  return read(torchtitan_framework, text, {.world_size = 64}, settings);
}

FrameworkImport accelerate(std::string const& text) {
  return read(accelerate_framework, text, {.micro_batch = 2});
}

nlohmann::ordered_json batch(int global, int micro) {
  return {{"global", global}, {"micro", micro}};
}

std::vector<std::string> names_left_out(FrameworkImport const& import) {
  std::vector<std::string> names;
  for (Omission const& omission : import.left_out) {
    if (omission.effect != OmittedEffect::none) names.push_back(omission.name);
  }
  return names;
}

TEST_CASE("two sizes of DeepSpeed's batch give the third", "[import]") {
  // 16 ranks: _set_batch_related_parameters of deepspeed/runtime/config.py.
  auto const of = [](std::string const& keys) {
    return deepspeed("{" + keys + "}").sections["batch"];
  };
  CHECK(of(R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 2)") == batch(64, 2));
  CHECK(of(R"("train_batch_size": 64, "gradient_accumulation_steps": 4)") == batch(64, 1));
  CHECK(of(R"("train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3)") ==
        batch(96, 2));
  CHECK(of(R"("train_batch_size": 64)") == batch(64, 4));
  CHECK(of(R"("train_micro_batch_size_per_gpu": 2)") == batch(32, 2));
  CHECK_THROWS_WITH(
      of(R"("train_batch_size": 65, "train_micro_batch_size_per_gpu": 2)"),
      "file:1:22: train_batch_size: found '65'; accepted: 2 x 2 x 16: microbatch, accumulation, "
      "replicas");
  CHECK_THROWS_WITH(of(R"("steps_per_print": 10)"),
                    Catch::Contains("train_micro_batch_size_per_gpu: missing; accepted: a whole "
                                    "number, or --micro-batch N"));
}

TEST_CASE("DeepSpeed's stages become what holds as many bytes", "[import]") {
  auto const of = [](std::string const& zero) {
    return deepspeed(R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "zero_optimization": )" +
                     zero + "}");
  };
  CHECK(of("{}").sections["sharding"] == "none");
  // Stage 1: gradients whole, in the model's type.
  auto const first = of("true").sections;
  CHECK(first["sharding"] == "zero1");
  CHECK(of(R"({"stage": 2})").sections["sharding"] ==
        nlohmann::ordered_json::parse(R"({"kind": "zero2", "reduce_dtype": "bf16"})"));
  auto const third = of(R"({"stage": 3, "overlap_comm": true, "mics_shard_size": 8,
    "offload_param": {"device": "cpu"}})");
  CHECK(third.sections["sharding"] ==
        nlohmann::ordered_json::parse(
            R"({"kind": "zero3", "group": 8, "reduce_dtype": "bf16", "overlap": true})"));
  // transformers' Trainer makes a bucket of hidden^2 elements; llama2-7b's hidden size is 4096.
  CHECK(of(R"({"stage": 2, "reduce_bucket_size": "auto", "overlap_comm": true})")
            .sections["sharding"]["bucket"] == 4096 * 4096);
  auto const sizes = of(R"({"stage": 3, "reduce_bucket_size": 2e8, "overlap_comm": false,
    "stage3_max_reuse_distance": 5e7})")
                         .sections["sharding"];
  CHECK(sizes == nlohmann::ordered_json::parse(
                     R"({"kind": "zero3", "reduce_dtype": "bf16", "bucket": 200000000,
                         "overlap": false, "reuse_distance": 50000000})"));
  CHECK(of(R"({"stage": 2, "contiguous_gradients": false})").sections["sharding"]["bucket"] == 0);
  CHECK(names_left_out(third) ==
        std::vector<std::string>{"zero_optimization.offload_param.device"});
  CHECK_THROWS_WITH(of(R"({"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}})"),
                    Catch::Contains("found '0.5'; accepted: 1, or stage 3"));
  CHECK_THROWS_WITH(of(R"({"stage": 4})"), Catch::Contains("accepted: 0, 1, 2, 3"));
}

TEST_CASE("stage 1's optimizer goes to hosts that the system describes", "[import]") {
  std::string const text = R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}})";
  auto const known = deepspeed(text, {.system = "dgx-h100", .world_size = 16});
  CHECK(known.sections["offload"]["optimizer"] == 1);
  auto const unknown = deepspeed(text, {.system = "selene-a100", .world_size = 16});
  CHECK(unknown.sections.count("offload") == 0);
  CHECK(names_left_out(unknown) ==
        std::vector<std::string>{"zero_optimization.offload_optimizer.device"});
  auto const reason = [](FrameworkImport const& import) {
    constexpr char const* name = "zero_optimization.offload_optimizer.device";
    return std::ranges::find(import.left_out, name, &Omission::name)->consequence;
  };
  CHECK_THAT(reason(unknown), Catch::Contains("has no node.host_adam"));
  std::string half = text;
  half.replace(half.find("bf16"), 4, "fp16");
  CHECK_THAT(reason(deepspeed(half, {.system = "dgx-h100", .world_size = 16})),
             Catch::Contains("that of fp16 and fp32 is not modelled"));
}

TEST_CASE("values that the Trainer sets come from the command or are assumed aloud", "[import]") {
  std::string const text = R"({"bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
    "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"})";
  auto const import = deepspeed(text, {.world_size = 8, .micro_batch = 4, .accumulation = 2});
  CHECK(import.sections["batch"] == batch(64, 4));
  CHECK(import.sections["model"]["precision"] == "bf16");
  CHECK_THAT(import.notes,
             Catch::VectorContains(std::string{"bf16.enabled is the Trainer's: true is assumed"}));
  CHECK_THROWS_WITH(deepspeed(text), Catch::Contains("the text 'auto'"));
}

TEST_CASE("what a framework's file asks for and is not modelled is left out by name", "[import]") {
  std::string const text = R"({"train_micro_batch_size_per_gpu": 1, "steps_per_print": 10,
    "zero_optimization": {"stage": 3, "zero_quantized_weights": true, "zero_quantized_gradients": false},
    "flops_profiler": {"enabled": false, "profile_step": 1}, "made_up": {"thing": 7}})";
  CHECK_THAT(names_left_out(deepspeed(text)),
             Catch::UnorderedEquals(std::vector<std::string>{
                 "zero_optimization.zero_quantized_weights", "made_up.thing"}));
  CHECK_THROWS_WITH(read(deepspeed_framework, text, {.world_size = 8}, {}, Strictness::strict),
                    Catch::Contains("zero_quantized_weights"));
  CHECK_THROWS_WITH(deepspeed(R"({"train_micro_batch_size_per_gpus": 1})"),
                    Catch::Contains("did you mean 'train_micro_batch_size_per_gpu'?"));
}

TEST_CASE("Accelerate's strategies of FSDP become kinds, groups and recompute", "[import]") {
  auto const of = [](std::string const& section) {
    return accelerate(
               "distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
               "fsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n" +
               section)
        .sections;
  };
  auto const full = of("  fsdp_activation_checkpointing: true\n");
  CHECK(full["sharding"] ==
        nlohmann::ordered_json::parse(R"({"kind": "fsdp1", "reduce_dtype": "bf16"})"));
  CHECK(full["recompute"]["granularity"] == "full");
  CHECK(full["batch"] == batch(32, 2));
  CHECK(of("  fsdp_sharding_strategy: 4\n")["sharding"]["group"] == 8);
  CHECK(of("  fsdp_sharding_strategy: SHARD_GRAD_OP\n")["sharding"]["reshard_after_forward"] ==
        false);
  CHECK(of("  fsdp_sharding_strategy: NO_SHARD\n")["sharding"] == "none");
  auto const second = of("  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n");
  CHECK(second["sharding"]["kind"] == "fsdp2");
  CHECK(second["sharding"]["reshard_after_forward"] == false);
  CHECK_THROWS_WITH(of("  fsdp_sharding_strategy: HALF\n"), Catch::Contains("HYBRID_SHARD_ZERO2"));
}

TEST_CASE("Accelerate's other kinds of job", "[import]") {
  std::string const head = "num_processes: 8\ndistributed_type: ";
  CHECK(accelerate(head + "MULTI_GPU\n").sections["sharding"] == "none");
  auto const zero = accelerate(head +
                               "DEEPSPEED\ndeepspeed_config: {zero_stage: 3, "
                               "gradient_accumulation_steps: 4, offload_optimizer_device: cpu}\n")
                        .sections;
  CHECK(zero["sharding"]["kind"] == "zero3");
  CHECK(zero["batch"] == batch(64, 2));
  auto const megatron = accelerate(head +
                                   "MEGATRON_LM\nmegatron_lm_config: {megatron_lm_tp_degree: 2, "
                                   "megatron_lm_pp_degree: 2, megatron_lm_num_micro_batches: 4, "
                                   "megatron_lm_sequence_parallelism: true}\n")
                            .sections;
  CHECK(megatron["parallel"] ==
        nlohmann::ordered_json::parse(
            R"({"tensor": 2, "sequence": true, "pipeline": 2, "data": 2})"));
  CHECK(megatron["software"] == "megatron-core");
  CHECK_THROWS_WITH(
      accelerate(head + "DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: d.json}\n"),
      Catch::Contains("stagecraft import deepspeed FILE"));
  CHECK_THROWS_WITH(accelerate(head + "XLA\n"), Catch::Contains("MEGATRON_LM, NO"));
}

TEST_CASE("torchtitan's degrees, batches and recompute", "[import]") {
  std::string const text =
      "[model]\nname = 'llama3'\nflavor = '70B'\n"
      "[training]\nlocal_batch_size = 2\nglobal_batch_size = 64\nseq_len = 8192\n"
      "[parallelism]\ndata_parallel_replicate_degree = 2\ntensor_parallel_degree = 8\n"
      "[activation_checkpoint]\nmode = 'selective'\nselective_ac_option = '4'\n"
      "[compile]\nenable = true\n[metrics]\nlog_freq = 10\n";
  Omissions omissions{{}};
  auto const run =
      import_framework(torchtitan_framework, text, "file", {}, {.world_size = 64}, omissions)
          .sections;
  CHECK(run["model"] == nlohmann::ordered_json::parse(
                            R"({"base": "llama3.1-70b", "precision": "bf16", "sequence": 8192})"));
  CHECK(run["parallel"] ==
        nlohmann::ordered_json::parse(R"({"tensor": 8, "sequence": true, "data": 8})"));
  CHECK(run["sharding"] ==
        nlohmann::ordered_json::parse(R"({"kind": "fsdp2", "group": 4, "sync": "every"})"));
  CHECK(run["batch"] == batch(64, 2));
  CHECK(run["recompute"]["layers"] == 20);  // every fourth of 80
  CHECK(run["software"] == "torchtitan");
}

TEST_CASE("torchtitan's pipelines split the batch of a rank", "[import]") {
  auto const run = torchtitan("[training]\nlocal_batch_size = 8\n",
                              {"parallelism.pipeline_parallel_degree=4",
                               "parallelism.pipeline_parallel_schedule=ZBVZeroBubble",
                               "parallelism.pipeline_parallel_microbatch_size=2",
                               "activation_checkpoint.mode=full"})
                       .sections;
  CHECK(run["batch"] == batch(128, 2));
  CHECK(run["schedule"] == "zbv");
  // Its default with pipelines keeps parameters: apply_fsdp of torchtitan/models/llama3.
  CHECK(run["sharding"]["reshard_after_forward"] == false);
}

TEST_CASE("torchtitan's names of 2024 are read", "[import]") {
  auto const run = torchtitan(
                       "[training]\nbatch_size = 2\nseq_len = 4096\ndata_parallel_degree = -1\n"
                       "tensor_parallel_degree = 4\ncompile = true\nfp8_linear = ''\n"
                       "[activation_checkpoint]\nmode = 'full'\n")
                       .sections;
  CHECK(run["parallel"]["data"] == 16);
  CHECK(run["batch"] == batch(32, 2));
  CHECK(run["software"] == "torchtitan");
  CHECK(run["recompute"]["early_stop"] == true);
}

TEST_CASE("torchtitan's float8 is torchao's, and gathers in 8 bits if it says so", "[import]") {
  auto const converted = [](std::string const& section, std::string const& keys) {
    return torchtitan("[model]\nflavor = '8B'\nconverters = ['" + section + "']\n[" + section +
                      "]\nfilter_fqns = ['output']\n" + keys);
  };
  // Both names of the section, before and from version 0.2 on.
  std::string const section = GENERATE("float8", "quantize.linear.float8");
  auto const tensor = converted(section,
                                "enable_fsdp_float8_all_gather = true\n"
                                "precompute_float8_dynamic_scale_for_fsdp = true\n");
  CHECK(tensor.sections["low_precision"] ==
        nlohmann::ordered_json::parse(R"({"recipe": "current", "implementation": "torchao"})"));
  CHECK(tensor.sections["sharding"]["parameter_dtype"] == "low");
  CHECK(tensor.notes.empty());
  auto const rows = converted(section, "recipe_name = 'rowwise_with_gw_hp'\n");
  CHECK(rows.sections["low_precision"]["recipe"] == "rowwise");
  CHECK(rows.sections["low_precision"]["keep_high"]["wgrad"] == true);
  CHECK(rows.sections["sharding"] == "fsdp2");
  CHECK_THROWS_WITH(converted(section, "recipe_name = 'mxfp8'\n"),
                    Catch::Contains("accepted: tensorwise, rowwise, rowwise_with_gw_hp"));
  // Float8LinearConverter asserts that one of both is not given.
  CHECK_THROWS_WITH(
      converted(section, "recipe_name = 'tensorwise'\nenable_fsdp_float8_all_gather = true\n"),
      Catch::Contains("false beside recipe_name"));
}

TEST_CASE("torchtitan's float8 of 2024 keeps the head in 16 bits without a filter", "[import]") {
  // torchtitan/float8.py before filter_fqns: module_filter_fn=lambda mod, fqn: fqn != "output".
  std::string const text = "[model]\nflavor = '8B'\n[float8]\n";
  CHECK(torchtitan(text + "enable_float8_linear = true\n").notes.empty());
}

TEST_CASE("a filter of torchtitan's float8 is first and last layers, or is left out", "[import]") {
  auto const import = [](std::string const& filter) {
    return torchtitan("[model]\nflavor = '8B'\nconverters = ['float8']\n[float8]\nfilter_fqns = [" +
                      filter + "]\n");
  };
  // Llama 3 8B has layers 0 to 31.
  auto const kept = import("'output', 'layers.0.', 'layers.30.', 'layers.31.'");
  CHECK(names_left_out(kept).empty());
  CHECK(kept.sections["low_precision"]["keep_high"] ==
        nlohmann::ordered_json::parse(R"({"first": 1, "last": 2})"));
  std::string const other = GENERATE("'output', 'layers.1.'", "'output', 'layers.0'",
                                     "'output', 'layers.0.', 'attention.wk'");
  CHECK(names_left_out(import(other)) == std::vector<std::string>{"float8.filter_fqns"});
  CHECK_FALSE(import(other).sections["low_precision"].contains("keep_high"));
}

TEST_CASE("torchtitan's converters of experts and of MXFP8 are left out by name", "[import]") {
  auto const [model, converter] = GENERATE(table<std::string, std::string>(
      {{"name = 'deepseek_v3'\nflavor = '671B'", "float8"}, {"flavor = '8B'", "mx"}}));
  Omissions omissions{{}};
  auto const run = import_framework(torchtitan_framework,
                                    "[model]\n" + model + "\nconverters = ['" + converter + "']\n",
                                    "file", {}, {.world_size = 64}, omissions);
  CHECK_FALSE(run.sections.contains("low_precision"));
  REQUIRE(run.left_out.size() == 1);
  CHECK(run.left_out.front().name == "model.converters");
}

TEST_CASE("torchtitan's bad input has its place", "[import]") {
  CHECK_THROWS_WITH(torchtitan("[training\n"), Catch::StartsWith("file:1:"));
  CHECK_THROWS_WITH(
      torchtitan("[parallelism]\ntensor_parallel_degree = 3\n"),
      Catch::Contains("found 64 ranks; accepted: a multiple of the 3 ranks of a replica"));
  CHECK_THROWS_WITH(torchtitan("[parallelism]\ndata_parallel_shard_degree = 5\n"),
                    Catch::Contains("parallelism.data_parallel_shard_degree: found 5 x 1 copies; "
                                    "accepted: 64 ranks in all"));
  Omissions omissions{{}};
  CHECK_THROWS_WITH(import_framework(torchtitan_framework, "[model]\nflavor = '7B'\n", "file", {},
                                     {.world_size = 8}, omissions),
                    Catch::Contains("accepted: --model NAME, or one of llama3 8B"));
}

}  // namespace
}  // namespace stagecraft::framework_import_test
