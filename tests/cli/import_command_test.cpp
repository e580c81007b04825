#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::import_command_test {
namespace {

std::string const fixtures = STAGECRAFT_SOURCE_DIR "/tests/libsim/import/";
std::string const llama = fixtures + "configs/llama-3-8b.json";
std::string const gpt3 = fixtures + "scripts/train_gpt3_175b_distributed.sh";
std::string const system_file = STAGECRAFT_SOURCE_DIR "/configs/systems/selene-a100.yaml";
std::string const flags =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
    "--max-position-embeddings 512 --micro-batch-size 2 --global-batch-size 64 --fp16";

TEST_CASE("an imported model is a run's model, and its notes are on standard error", "[cli]") {
  TemporaryFolder const folder;
  std::string const model = (folder.path() / "model.yaml").string();
  ProgramResult const import =
      run_stagecraft("import huggingface " + llama + " -s 2048 -o " + model);
  REQUIRE(import.exit_code == 0);
  REQUIRE(import.output.empty());
  REQUIRE_THAT(import.errors, Catch::Contains("note: not in any config.json: attention flash"));
  REQUIRE(folder.names() == std::vector<std::string>{"model.yaml"});
  std::string const origin = "# Written by stagecraft import: a model file\n";
  REQUIRE_THAT(text_of(model), Catch::StartsWith(origin + "# " + llama +
                                                 ", model_type llama: 8030261248 parameters.\n"));
  std::string const run = folder.write("run.yaml", "model: model.yaml\nsystem: " + system_file +
                                                       "\nparallel: {tensor: 8, sequence: true}\n"
                                                       "batch: {global: 8}\n");
  REQUIRE(json_of("simulate --json " + run)["config"]["model"]["ffn_hidden"] == 14336);
  ProgramResult const printed = run_stagecraft("import huggingface " + llama + " -s 2048");
  REQUIRE(origin + printed.output == text_of(model));
  // Without -s the training length is a guess, and says so.
  REQUIRE_THAT(run_stagecraft("import huggingface " + llama).errors,
               Catch::Contains("note: sequence 8192 is the longest that the file allows"));
}

TEST_CASE("an imported run simulates from any folder", "[cli]") {
  TemporaryFolder const folder;
  std::string const run = (folder.path() / "run.yaml").string();
  ProgramResult const import = run_stagecraft("import megatron --script " + gpt3 + " --system " +
                                              system_file + " -o " + run);
  REQUIRE(import.exit_code == 0);
  REQUIRE(import.output.empty());
  REQUIRE_THAT(import.errors, Catch::Contains("note: read as flags of the current Megatron-LM"));
  auto const result = json_of("simulate --json " + run);
  REQUIRE(result["config"]["parallel"]["pipeline"] == 16);
  REQUIRE(result["stages"].size() == 16);
}

TEST_CASE("a run of torchtitan simulates, with what the command line says", "[cli]") {
  TemporaryFolder const folder;
  std::string const toml =
      folder.write("llama.toml",
                   "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nlocal_batch_size = 1\n"
                   "[activation_checkpoint]\nmode = 'full'\n");
  std::string const run = (folder.path() / "run.yaml").string();
  ProgramResult const import =
      run_stagecraft("import torchtitan " + toml + " --world-size 8 --system dgx-h100 -o " + run +
                     " -- training.seq_len=4096 training.global_batch_size=32");
  REQUIRE(import.exit_code == 0);
  auto const result = json_of("simulate --json " + run);
  CHECK(result["config"]["model"]["sequence"] == 4096);
  CHECK(result["config"]["batch"]["global"] == 32);
  CHECK(result["config"]["sharding"]["kind"] == "fsdp2");
}

TEST_CASE("flags after -- override those of a script, and do without one", "[cli]") {
  ProgramResult const both = run_stagecraft("import megatron --script " + gpt3 +
                                            " -- --global-batch-size 64 --micro-batch-size 2");
  REQUIRE(both.exit_code == 0);
  REQUIRE_THAT(both.output, Catch::Contains("  global: 64\n  micro: 2\n"));
  ProgramResult const alone = run_stagecraft("import megatron --world-size 4 -- " + flags);
  REQUIRE_THAT(alone.output,
               Catch::Contains("# no --system: the paper's, selene-a100; --system names yours "));
  REQUIRE_THAT(
      run_stagecraft("import megatron --world-size 4 --system dgx-h100 -- " + flags).output,
      !Catch::Contains("selene-a100"));
  REQUIRE(alone.exit_code == 0);
  REQUIRE_THAT(alone.output, Catch::StartsWith("# Megatron-LM's flags from command line.\n"));
  REQUIRE_THAT(alone.output, Catch::Contains("  data: 4\n"));
  REQUIRE_THAT(alone.errors, Catch::Contains("note: no --system: the paper's, "));
  ProgramResult const launched =
      run_stagecraft("import megatron -- torchrun --nproc_per_node 2 pretrain_gpt.py " + flags);
  REQUIRE_THAT(launched.output, Catch::Contains("  data: 2\n"));
}

TEST_CASE("import says where the command line and the script contradict each other", "[cli]") {
  TemporaryFolder const folder;
  std::string const script =
      folder.write("train.sh",
                   "NODES=${NODES:-32}\nGPUS=8\nBATCH=$((NODES * GPUS * 2))\n"
                   "torchrun --nproc_per_node $GPUS --nnodes $NODES pretrain_gpt.py " +
                       flags + " --global-batch-size $BATCH\n");
  std::string const import = "import megatron --system dgx-h100 --script '" + script + "' ";
  REQUIRE_THAT(run_stagecraft(import + "--world-size 512").errors,
               Catch::Contains("note: --world-size 512: the script starts 256 ranks, and what it "
                               "derives from that, such as a batch, stays"));
  REQUIRE_THAT(
      run_stagecraft(import + "--variable NODE=64").errors,
      Catch::Contains("--variable NODE: the script never reads it; did you mean 'NODES'?"));
  ProgramResult const set = run_stagecraft(import + "--world-size 512 --variable NODES=64");
  REQUIRE_THAT(set.output, Catch::Contains("  global: 1024\n"));
  REQUIRE_THAT(set.errors, !Catch::Contains("--world-size") && !Catch::Contains("--variable"));
}

TEST_CASE("what is left out is listed as much as is asked, and as JSON", "[cli]") {
  std::string const command = "import megatron --world-size 4 --system dgx-h100 ";
  std::string const more = flags + " --kitchen-recipe-number 1 --no-mmap-bin-files";
  std::string const left_out = "left out: --kitchen-recipe-number 1: large effect, less time";
  ProgramResult const plain = run_stagecraft(command + "-- " + more);
  REQUIRE(plain.exit_code == 0);
  REQUIRE_THAT(plain.errors, Catch::Contains(left_out) && !Catch::Contains("mmap"));
  REQUIRE_THAT(plain.output, Catch::Contains("\nsoftware: megatron-core\n"));
  REQUIRE_THAT(run_stagecraft(command + "--verbose -- " + more).errors,
               Catch::Contains("without effect on memory and time: --no-mmap-bin-files"));
  require_refusal(command + "--strict -- " + more, {"--kitchen-recipe-number: found '1'"});
  REQUIRE(
      run_stagecraft(command + "--strict --ignore kitchen-recipe-number -- " + more).exit_code ==
      0);
  auto const result = nlohmann::json::parse(run_stagecraft(command + "--json -- " + more).output);
  REQUIRE(result["config"]["parallel"]["data"] == 4);
  REQUIRE(result["config"]["software"] == "megatron-core");
  REQUIRE(result["left_out"].size() == 2);
  REQUIRE(result["left_out"][0]["name"] == "--kitchen-recipe-number");
  REQUIRE(result["left_out"][0]["effect"] == "large");
  REQUIRE(result["left_out"][1]["effect"] == "none");
  REQUIRE_THAT(run_stagecraft(command + "--megatron 2022 -- " + flags).output,
               !Catch::Contains("software:"));
}

TEST_CASE("the allocator's settings that a script exports are those of the run", "[cli]") {
  TemporaryFolder const folder;
  std::string const script =
      folder.write("s.sh",
                   "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
                   "torchrun --nproc_per_node 2 pretrain_gpt.py " +
                       flags + "\n");
  REQUIRE_THAT(run_stagecraft("import megatron --script " + script).output,
               Catch::Contains("allocator_settings: \"expandable_segments:True\""));
}

TEST_CASE("a YAML file with the flags' names is read, and another format called by name", "[cli]") {
  TemporaryFolder const folder;
  std::string text = "model:\n  bf16: true\n  tensor_model_parallel_size: ${TP}\n";
  for (char const* const line : {"num_layers: 24", "hidden_size: 1024", "num_attention_heads: 16",
                                 "seq_length: 512", "max_position_embeddings: 512"}) {
    text += "  " + std::string{line} + "\n";
  }
  text += "train: {micro_batch_size: 2, global_batch_size: 64}\n";
  std::string const file = folder.write("bridge.yaml", text);
  std::string const command = "import megatron --world-size 8 --yaml " + file + " --variable TP=2";
  ProgramResult const import = run_stagecraft(command + " -- sequence_parallel=true");
  REQUIRE(import.exit_code == 0);
  REQUIRE_THAT(import.errors, Catch::Contains("note: read as a run file of Megatron-Bridge"));
  REQUIRE_THAT(import.output, Catch::Contains("  tensor: 2\n") &&
                                  Catch::Contains("  sequence: true\n") &&
                                  Catch::Contains("  data: 4\n"));
  require_refusal(
      "import megatron --world-size 8 --yaml " + llama,
      {"a config.json of Hugging Face, which stagecraft import huggingface FILE reads"});
  require_refusal(command + " --script " + gpt3, {"--yaml: found --script beside it"});
}

TEST_CASE("a run that trains a checkpoint has the model that --model names", "[cli]") {
  TemporaryFolder const folder;
  std::string const file =
      folder.write("swift.yaml",
                   "train_type: full\nmicro_batch_size: 1\nglobal_batch_size: 8\n"
                   "max_length: 2048\ntensor_model_parallel_size: 2\nbf16: true\n");
  std::string const command = "import megatron --world-size 8 --yaml " + file;
  require_refusal(command, {"--num-layers: missing", "or --model NAME"});
  // Llama 3's config.json and the model file say one model.
  ProgramResult const by_name = run_stagecraft(command + " --model llama3-8b");
  ProgramResult const by_config = run_stagecraft(command + " --model " + llama);
  REQUIRE(by_name.exit_code == 0);
  REQUIRE_THAT(by_name.output, Catch::Contains("layers: 32") && Catch::Contains("tensor: 2") &&
                                   Catch::Contains("sequence: 2048"));
  REQUIRE(by_config.output == by_name.output);
}

TEST_CASE("input that cannot be imported is refused", "[cli]") {
  TemporaryFolder const folder;
  require_refusal("import huggingface " + folder.write("empty.json", ""), {"found an empty file"});
  require_refusal("import huggingface " + folder.path().string(), {"found a folder"});
  require_refusal("import huggingface no/such.json", {"a file that cannot be opened"});
  require_refusal("import huggingface " + folder.write("long.json", std::string(2 << 20, ' ')),
                  {"more than 1 MiB"});
  require_refusal("import huggingface " + folder.write("dbrx.json", R"({"model_type": "dbrx"})"),
                  {"a mixture of experts"});
  require_refusal("import megatron --script no/such.sh", {"accepted: a launch script"});
  require_refusal("import megatron --script " + folder.write("empty.sh", ""),
                  {"found no command with --num-layers"});
  require_refusal("import huggingface", {"(see stagecraft import huggingface --help)"});
  require_refusal("import megatron -- --num-layers 24", {"accepted: at least --seq-length\n"});
  require_refusal("import megatron -- " + flags, {"world size: missing"});
  require_refusal("import megatron --world-size 8 -- " + flags + " --num-expert 8",
                  {"--num-expert: found an unknown flag", "did you mean '--num-experts'?"});
  require_refusal("import megatron --world-size 8 --system no/such.yaml -- " + flags,
                  {"no/such.yaml"});
}

TEST_CASE("a command line that asks for nothing is refused", "[cli]") {
  require_refusal("import", {"source: missing; accepted: huggingface, megatron"});
  require_refusal("import onnx x", {"source: found 'onnx'; accepted: huggingface, megatron"});
  require_refusal("import huggingface", {"FILE: found no file; accepted: one config.json"});
  require_refusal("import huggingface " + llama + " -s 0", {"--sequence (-s): found '0'"});
  require_refusal("import huggingface " + llama + " --attention none",
                  {"--attention: found 'none'; accepted: unfused, flash"});
  require_refusal("import megatron", {"accepted: flags after --, or a script"});
  require_refusal("import megatron --megatron 2019 -- " + flags,
                  {"--megatron: found '2019'; accepted: 2022, current"});
  require_refusal("import megatron --script x --variable N", {"--variable: found 'N'"});
}

TEST_CASE("where the result cannot be written nothing is left behind", "[cli]") {
  TemporaryFolder const folder;
  std::filesystem::create_directory(folder.path() / "taken");
  ProgramResult const onto_folder =
      run_stagecraft("import huggingface " + llama + " -o " + (folder.path() / "taken").string());
  REQUIRE(onto_folder.exit_code == 1);
  REQUIRE_THAT(onto_folder.errors, Catch::Contains("could not write "));
  REQUIRE(folder.names() == std::vector<std::string>{"taken"});
  ProgramResult const nowhere = run_stagecraft("import huggingface " + llama + " -o " +
                                               (folder.path() / "no/such.yaml").string());
  REQUIRE(nowhere.exit_code == 1);
  REQUIRE(run_stagecraft("import huggingface " + llama + " >/dev/full").exit_code == 1);
}

TEST_CASE("help shows examples", "[cli]") {
  for (char const* const command :
       {"import --help", "import huggingface --help", "import megatron --help"}) {
    ProgramResult const help = run_stagecraft(command);
    REQUIRE(help.exit_code == 0);
    REQUIRE_THAT(help.output, Catch::StartsWith("usage: stagecraft import"));
  }
}

TEST_CASE("a DeepSpeed configuration as a config.json is called by its name, with what reads it",
          "[cli]") {
  TemporaryFolder const folder;
  std::string const file = folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 2}}");
  ProgramResult const import = run_stagecraft("import huggingface " + file);
  REQUIRE(import.exit_code == 2);
  REQUIRE(import.errors ==
          file +
              ": found a configuration of DeepSpeed, which stagecraft import deepspeed FILE "
              "reads; accepted: a config.json of Hugging Face's transformers\n");
}

TEST_CASE("an imported run that the system cannot run is refused at the script", "[cli]") {
  TemporaryFolder const folder;
  std::string const script = folder.write("v.sh", "python x.py " + flags + " --vocab-size 100\n");
  ProgramResult const import =
      run_stagecraft("import megatron --system v100-dgx2 --world-size 1 --script " + script);
  REQUIRE(import.exit_code == 2);
  REQUIRE_THAT(import.errors, Catch::Contains(script + ": model.attention: found 'flash'"));
}

TEST_CASE("import --strict refuses experts that the script may or may not have", "[cli]") {
  TemporaryFolder const folder;
  std::string const script =
      folder.write("moe.sh", "case $TYPE in moe) E='--num-experts 8' ;; esac\npython x.py " +
                                 flags + " --vocab-size 100 $E\n");
  std::string const command = "import megatron --world-size 1 --script " + script;
  REQUIRE_THAT(run_stagecraft(command).errors,
               Catch::Contains("left out: case $TYPE (line 1): unknown effect"));
  REQUIRE(run_stagecraft(command + " --strict").exit_code == 2);
  REQUIRE_THAT(run_stagecraft(command + " --strict --variable TYPE=moe").output,
               Catch::Contains("experts:"));
}

}  // namespace
}  // namespace stagecraft::import_command_test
