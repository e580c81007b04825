#include "libsim/import/megatron/megatron_settings.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/import/settings_files.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "libsim/run/foreign_format.hpp"
#include "tests/libsim/import/megatron_round_trip.hpp"
#include "tests/libsim/run/temporary_folder.hpp"

// Run files of programs around Megatron, which have the flags' names with underscores.

namespace stagecraft::megatron_settings_test {
namespace {

MegatronSettings settings_of(std::string const& text) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "run.yaml", diagnostics);
  diagnostics.throw_if_any();
  return read_megatron_settings(*root);
}

MegatronImport read(ShellWords const& words) {
  MegatronOptions options;
  options.world_size = 8;
  return import_megatron(words, "run.yaml", options);
}

std::string const model =
    "num_layers: 24\nhidden_size: 1024\nnum_attention_heads: 16\nseq_length: 512\n"
    "max_position_embeddings: 512\nmicro_batch_size: 2\nglobal_batch_size: 64\n";

TEST_CASE("a file of Primus has Megatron's flags in its overrides", "[import]") {
  std::string overrides;
  for (std::string line :
       {"num_layers: 24", "hidden_size: 1024", "num_attention_heads: 16", "seq_length: 512",
        "max_position_embeddings: 512", "micro_batch_size: 2", "global_batch_size: 64",
        "bf16: true", "tensor_model_parallel_size: 2", "disable_bias_linear: false",
        "overlap_grad_reduce: null", "gradient_accumulation_fusion: false"}) {
    overrides += "      " + line + "\n";
  }
  MegatronSettings const settings = settings_of(
      "work_group: AMD\nexp_name: x\nmodules:\n  pre_trainer:\n    framework: megatron\n"
      "    overrides:\n" +
      overrides);
  REQUIRE(settings.program == "Primus");
  MegatronImport const import = read(settings.flags);
  REQUIRE(import.config.parallel.tensor == 2);
  REQUIRE(import.config.model.biases);
  REQUIRE_FALSE(import.config.parallel.overlap_gradients.value_or(false));
  REQUIRE(import.left_out.back().name == "--no-gradient-accumulation-fusion");
}

TEST_CASE("a file is read after those that it names, beside it or where Primus has its own",
          "[import]") {
  TemporaryFolder const folder;
  auto const write = [&](std::string const& name, std::string const& text) {
    std::filesystem::path const path = folder.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
    return path.string();
  };
  write("primus/configs/models/megatron/llama.yaml", "extends: [base.yaml]\nnum_layers: 24\n");
  write("primus/configs/models/megatron/base.yaml", "num_layers: 12\nhidden_size: 1024\nx: 1\n");
  write("primus/configs/modules/megatron/trainer.yaml", "bf16: true\nglobal_batch_size: 16\n");
  std::string const run = write("examples/run.yaml",
                                "exp_name: x\nmodules:\n  pre_trainer:\n    config: trainer.yaml\n"
                                "    model: llama.yaml\n    overrides: {global_batch_size: 64}\n");
  std::vector<Omission> left_out;
  LaunchCommand const command = read_settings_file(run, {}, left_out);
  std::vector<std::string> words;
  for (ShellWord const& word : command.arguments) words.push_back(word.text);
  REQUIRE(words == std::vector<std::string>{"--bf16", "--global-batch-size=16", "--num-layers=12",
                                            "--hidden-size=1024", "--num-layers=24",
                                            "--global-batch-size=64"});
  // x, of a file of defaults, and not exp_name.
  REQUIRE(std::ranges::find(left_out, std::string{"x"}, &Omission::name)->effect ==
          OmittedEffect::none);
  REQUIRE(command.notes == std::vector<std::string>{"read as a run file of Primus"});
}

TEST_CASE("files that name themselves, a folder or no file are refused where they do", "[import]") {
  TemporaryFolder const folder;
  std::filesystem::create_directories(folder.path() / "b.yaml");
  auto const path = [&](std::string const& name) { return (folder.path() / name).string(); };
  auto const refusal = [&](std::string const& text) {
    std::ofstream{path("run.yaml")} << text;
    std::vector<Omission> left_out;
    try {
      read_settings_file(path("run.yaml"), {}, left_out);
    } catch (ConfigError const& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  std::ofstream{path("a.yaml")} << "x: 1\nextends: [run.yaml]\n";
  std::string const another = "accepted: a file that does not name this one";
  REQUIRE(refusal("extends: a.yaml\n") ==
          path("a.yaml") + ":2:11: extends: found 'run.yaml', which names this file in turn; " +
              another);
  REQUIRE(refusal("extends: run.yaml\n") ==
          path("run.yaml") + ":1:10: extends: found 'run.yaml', this file itself; " + another);
  std::string const accepted = "accepted: the name of a YAML file (.yaml), or a list of them";
  REQUIRE(refusal("extends: 3\n") == path("run.yaml") + ":1:10: extends: found '3'; " + accepted);
  REQUIRE(refusal("includes: [b.yaml]\n") ==
          path("run.yaml") + ":1:12: includes: found 'b.yaml', a folder; " + accepted);
  REQUIRE(refusal("extends: {a: b.yaml}\n") ==
          path("run.yaml") + ":1:10: extends: found a map; " + accepted);
  REQUIRE(refusal("extends: ''\n") == path("run.yaml") + ":1:10: extends: found ''; " + accepted);
  // Read twice, but by no circle.
  std::ofstream{path("a.yaml")} << "extends: [c.yaml]\n";
  std::ofstream{path("c.yaml")} << "bf16: true\n";
  REQUIRE(refusal("extends: [a.yaml, c.yaml]\n") == "accepted");
}

TEST_CASE("a switch is on or off, and an error is placed in the file that has the value",
          "[import]") {
  TemporaryFolder const folder;
  std::string const named = (folder.path() / "model.yaml").string();
  std::string const run = (folder.path() / "run.yaml").string();
  auto const error_of = [&](std::string const& line) {
    std::ofstream{named} << "y: 1\n" << line << '\n';
    std::ofstream{run} << "extends: model.yaml\n" << model;
    std::vector<Omission> left_out;
    MegatronOptions options;
    options.world_size = 8;
    try {
      import_megatron(read_settings_file(run, {}, left_out).arguments, run, options);
    } catch (ConfigError const& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  std::string const one = "accepted: true or false";
  REQUIRE(error_of("swiglu: maybe") == named + ":2:9: --swiglu: found 'maybe'; " + one);
  REQUIRE(error_of("tensor_model_parallel_size: two") ==
          named +
              ":2:29: --tensor-model-parallel-size: found 'two'; accepted: a whole number from "
              "1 to 1000000");
  // PyYAML reads these as true and false.
  for (char const* const word : {"yes", "On", "false", "no", "0"}) {
    REQUIRE(error_of("swiglu: " + std::string{word}) == "accepted");
  }
}

TEST_CASE("a file of Megatron-Bridge has the names of Megatron's configuration", "[import]") {
  MegatronSettings const settings = settings_of(
      "model:\n  _target_: x\n  num_layers: 24\n  hidden_size: 1024\n  num_attention_heads: 16\n"
      "  num_query_groups: 8\n  add_bias_linear: false\n  share_embeddings_and_output_weights: "
      "false\n  gated_linear_unit: true\n  ffn_hidden_size: 2816\n  position_embedding_type: rope\n"
      "  num_moe_experts: 8\n  moe_router_topk: 2\n  expert_model_parallel_size: 4\n"
      "  moe_layer_freq: [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
      "  recompute_granularity: selective\n  recompute_modules: [core_attn, moe_act]\n"
      "  params_dtype: torch.bfloat16\ndataset:\n  sequence_length: 512\n  num_workers: 8\n"
      "  blend: null\ntrain:\n  micro_batch_size: 2\n  global_batch_size: 64\n"
      "ddp:\n  use_distributed_optimizer: true\n  grad_reduce_in_fp32: false\n"
      "checkpoint:\n  save_everything: true\n");
  REQUIRE(settings.program == "Megatron-Bridge");
  TrainingConfig const config = read(settings.flags).config;
  REQUIRE(config.model.kv_heads == 8);
  REQUIRE_FALSE(config.model.biases);
  REQUIRE_FALSE(config.model.tied_embeddings);
  REQUIRE(config.model.activation == Activation::swiglu);
  REQUIRE(config.model.sequence == 512);
  REQUIRE(config.model.precision == Precision::bf16);
  REQUIRE(config.model.experts->count == 8);
  REQUIRE(config.model.experts->first_dense == 1);
  REQUIRE(config.recompute.front().modules ==
          std::vector<std::string>{"core_attention", "moe_act"});
  REQUIRE(config.sharding.shares_optimizer());
  REQUIRE(config.memory.gradient_dtype == StateType::bf16);
}

TEST_CASE("a file of verl is read for the actor alone", "[import]") {
  MegatronSettings const settings = settings_of(
      "actor_rollout_ref:\n  actor:\n    megatron:\n      tensor_model_parallel_size: 2\n"
      "  rollout:\n    tensor_model_parallel_size: 4\n  ref:\n    megatron:\n"
      "      tensor_model_parallel_size: 8\n");
  REQUIRE(settings.program == "verl");
  REQUIRE(settings.flags.size() == 1);
  REQUIRE(settings.flags[0].text == "--tensor-model-parallel-size=2");
}

TEST_CASE("null in a later file takes back what an earlier one says", "[import]") {
  auto const read_both = [](std::string const& earlier, std::string const& later) {
    ShellWords words = settings_of(model + "position_embedding_type: rope\n" + earlier).flags;
    for (ShellWord const& word : settings_of(later).flags) words.push_back(word);
    return read(words).config;
  };
  std::string const swiglu = "swiglu: true\n";
  REQUIRE(read_both("mtp_num_layers: 1\n", "x: 1\n").model.predicted_tokens == 1);
  REQUIRE(read_both("mtp_num_layers: 1\n", "mtp_num_layers: null\n").model.predicted_tokens == 0);
  REQUIRE(read_both(swiglu, "swiglu: null\n").model.activation == Activation::gelu);
  REQUIRE_FALSE(read_both("num_moe_experts: 8\n", "num_moe_experts: ~\n").model.experts);
  // Not what the same file says in another section.
  REQUIRE(read_both("", "model: {swiglu: true}\noptimizer: {swiglu: null}\n").model.activation ==
          Activation::swiglu);
}

TEST_CASE("a program around Megatron has settings of its own, and names what flags switch off",
          "[import]") {
  // Lines of Primus' trainer_base.yaml and of its run files. The flags are --bert-no-binary-head
  // and --retro-no-verify-neighbor-count.
  std::string const lines =
      "bert_binary_head: true\nretro_verify_neighbor_count: true\nenable_odc: true\n"
      "moe_router_bias_update_rule: sign\n";
  YamlNode const root = [&] {
    Diagnostics diagnostics;
    return *parse_yaml(model + lines, "run.yaml", diagnostics);
  }();
  MegatronSettings const settings = read_megatron_settings(root, "Primus");
  std::vector<std::string> left_out;
  for (Omission const& omission : settings.left_out) left_out.push_back(omission.name);
  REQUIRE(left_out == std::vector<std::string>{"enable_odc", "moe_router_bias_update_rule"});
  REQUIRE(read(settings.flags).config.model.layers == 24);
  ShellWords const off = settings_of("bert_binary_head: false\n").flags;
  REQUIRE(off.size() == 1);
  REQUIRE(off[0].text == "--bert-no-binary-head");
}

TEST_CASE("a run that starts from a checkpoint has its model where the file says nothing",
          "[import]") {
  std::string const run = "micro_batch_size: 1\nglobal_batch_size: 8\nbf16: true\n";
  MegatronOptions options{.world_size = 8};
  auto const read_run = [&](std::string const& lines) {
    return import_megatron(settings_of(run + lines).flags, "run.yaml", options).config.model;
  };
  REQUIRE_THROWS_WITH(
      read_run(""), Catch::Contains("--num-layers: missing") && Catch::Contains("or --model NAME"));
  options.model = read(settings_of(model + "swiglu: true\nnum_query_groups: 4\nbf16: true\n"
                                           "position_embedding_type: rope\nvocab_size: 32000\n"
                                           "disable_bias_linear: true\nnum_moe_experts: 8\n"
                                           "moe_ffn_hidden_size: 512\nnormalization: RMSNorm\n")
                           .flags)
                      .config.model;
  // The file leaves the layers to the checkpoint.
  REQUIRE(read_run("num_layers: null\n") == *options.model);
  REQUIRE(read_run("num_layers: 12\n").layers == 12);
  ModelConfig half = *options.model;
  half.precision = Precision::fp16;
  options.model = half;
  REQUIRE(read_run("").precision == Precision::bf16);
}

TEST_CASE("settings that no table knows are left out, but a misspelt one is a flag", "[import]") {
  MegatronSettings const settings =
      settings_of("use_turbo_attention: true\ntensor_model_paralel_size: 2\nturbo_x: false\n");
  REQUIRE(settings.left_out.size() == 1);
  REQUIRE(settings.left_out[0].name == "use_turbo_attention");
  REQUIRE(settings.left_out[0].effect == OmittedEffect::unknown);
  REQUIRE(settings.flags.size() == 1);
  REQUIRE(settings.flags[0].text == "--tensor-model-paralel-size=2");
}

TEST_CASE("settings of the configuration that are off take others back", "[import]") {
  // model_parallel_config.py: cpu_offloading_num_layers counts if cpu_offloading is set.
  auto const import = [](std::string const& lines) {
    return read(settings_of(model + lines).flags);
  };
  std::string const layers = "cpu_offloading_num_layers: 2\n";
  REQUIRE(import("cpu_offloading: true\n" + layers).config.offload.activations.layers == 2);
  std::string const off = GENERATE("cpu_offloading: false\n", "cpu_offloading_activations: 'no'\n");
  REQUIRE(import(off + layers).config.offload == Offload{});
  REQUIRE(import(layers + off).config.offload == Offload{});
  std::string const weights = "cpu_offloading_weights: true\n";
  Omission const left = import(layers + weights).left_out.back();
  REQUIRE(left.name == "--cpu-offloading-weights");
  REQUIRE(left.effect == OmittedEffect::large);
  REQUIRE(import(off + layers + weights).left_out.back().effect == OmittedEffect::none);
  for (std::string const word : {"false", "no", "off", "FALSE"}) {
    CAPTURE(word);
    REQUIRE(import("group_query_attention: " + word + "\nnum_query_groups: 4\n")
                .config.model.kv_heads == 16);
  }
}

TEST_CASE("a pipeline layout of lists is that of the flag", "[import]") {
  MegatronSettings const settings = settings_of(
      "pipeline_model_parallel_layout: [[embedding, decoder], [decoder, decoder], [mtp, loss]]\n");
  REQUIRE(settings.flags[0].text == "--pipeline-model-parallel-layout=Et|tt|mL");
}

TEST_CASE("a later false takes a flag back", "[import]") {
  ShellWords words = settings_of(model + "swiglu: true\nbf16: true\n").flags;
  for (ShellWord const& word : settings_of("swiglu: false\n").flags) words.push_back(word);
  REQUIRE(read(words).config.model.activation == Activation::gelu);
  REQUIRE(read(words).config.model.precision == Precision::bf16);
}

TEST_CASE("objects of Python, variables and files that are named are read as what they say",
          "[import]") {
  REQUIRE(with_variables("a: ${TP}\nb: ${X:amd}\nc: ${model.x}\n", {{"TP", "8"}}) ==
          "a: 8\nb: amd\nc: ${model.x}\n");
  MegatronSettings const settings = settings_of(
      "model: llama2_7B.yaml\nENV_VARS: {PYTORCH_CUDA_ALLOC_CONF: \"expandable_segments:True\"}\n"
      "params_dtype: {_call_: false, _target_: torch.bfloat16}\n"
      "attention_backend: AttnBackend.flash\nexp_avg_dtype: torch.float32\n");
  REQUIRE(settings.files.size() == 1);
  REQUIRE(settings.files[0].name == "llama2_7B.yaml");
  REQUIRE(settings.environment.allocator_settings == "expandable_segments:True");
  REQUIRE(settings.flags.size() == 3);
  REQUIRE(settings.flags[2].text == "--exp-avg-dtype=fp32");
  REQUIRE(settings.flags[0].text == "--bf16");
  REQUIRE(settings.flags[1].text == "--attention-backend=flash");
}

TEST_CASE("name=value stands for a flag, in a section too", "[import]") {
  ShellWords words = settings_of(model).flags;
  for (std::string const text :
       {"model.tensor_model_parallel_size=2", "bf16=True", "+actor.megatron.sequence_parallel=true",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=8", "recompute_granularity=selective",
        "recompute_modules=[core_attn,mlp]"}) {
    words.push_back({text, 0, 0});
  }
  TrainingConfig const config = read(words).config;
  REQUIRE(config.parallel.tensor == 2);
  REQUIRE(config.parallel.sequence);
  REQUIRE(config.model.precision == Precision::bf16);
  REQUIRE(config.recompute.front().modules == std::vector<std::string>{"core_attention", "mlp"});
  REQUIRE_FALSE(is_setting("CUDA_VISIBLE_DEVICES=0"));
  REQUIRE_FALSE(is_setting("--seed=1"));
}

TEST_CASE("a script that starts ms-swift or verl has flags by their names in Python", "[import]") {
  auto const read_script = [](std::string const& text, std::vector<Omission>& left_out) {
    Diagnostics diagnostics;
    LaunchCommand launch = read_launch_script(text, "s.sh", {}, diagnostics);
    diagnostics.throw_if_any();
    launch.arguments = flags_of_command(launch.arguments, "s.sh", left_out);
    return launch;
  };
  auto const texts = [](ShellWords const& words) {
    std::vector<std::string> result;
    for (ShellWord const& word : words) result.push_back(word.text);
    return result;
  };
  std::vector<Omission> left_out;
  LaunchCommand const swift = read_script(
      "NPROC_PER_NODE=8 \\\nmegatron sft --load x --micro_batch_size 1 --sequence_parallel true "
      "\\\n"
      "--recompute_modules core_attn mlp --bf16 --loss_scale last_round --overlong_filter true\n",
      left_out);
  REQUIRE(swift.program == "ms-swift");
  REQUIRE(swift.world_size == 8);
  REQUIRE(texts(swift.arguments) ==
          std::vector<std::string>{"--load=x", "--micro-batch-size=1", "--sequence-parallel",
                                   "--recompute-modules", "core_attn", "mlp", "--bf16"});
  REQUIRE(left_out.size() == 1);
  REQUIRE(left_out[0].name == "overlong_filter");
  LaunchCommand const verl = read_script(
      "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.tensor_model_parallel_size=4 "
      "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 "
      "trainer.nnodes=2 trainer.critic_warmup=0\n",
      left_out);
  REQUIRE(verl.program == "verl");
  REQUIRE(verl.world_size == 16);
  REQUIRE(texts(verl.arguments) == std::vector<std::string>{"--tensor-model-parallel-size=2"});
  REQUIRE(texts(defaults_of(verl.program)) == std::vector<std::string>{"--sequence-parallel"});
  ShellWords words = settings_of(model).flags;
  words.push_back({"--tensor_model_parallel_size", 0, 0});
  words.push_back({"4", 0, 0});
  REQUIRE(read(words).config.parallel.tensor == 4);
}

TEST_CASE("files of other programs are called by their names", "[import]") {
  auto const name = [](std::string const& text) {
    auto const format = foreign_format(text);
    return format ? std::string{format->name} : std::string{};
  };
  REQUIRE(name(R"({"model_type": "llama"})") == "a config.json of Hugging Face");
  REQUIRE(name(R"({"zero_optimization": {"stage": 3}})") == "a configuration of DeepSpeed");
  REQUIRE(name("distributed_type: FSDP\nnum_processes: 8\n") == "a configuration of Accelerate");
  REQUIRE(name("[training]\nseq_len = 8192\n[parallelism]\n") == "a configuration of torchtitan");
  REQUIRE(name("model: a\nsystem: b\nbatch: {global: 8}\n") == "a run file of stagecraft");
  REQUIRE(name(model) == "a run file of Megatron-LM");
  REQUIRE(name("a: 1\n").empty());
}

}  // namespace
}  // namespace stagecraft::megatron_settings_test
