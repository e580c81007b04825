#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

// What a newcomer types, each with the way out that the message must name.

namespace stagecraft::hints_test {

namespace {

std::string const model = "'" STAGECRAFT_SOURCE_DIR "/configs/models/llama3-8b.yaml'";
std::string const on_selene = " --system selene-a100 --global-batch 64";
std::string const fixtures = STAGECRAFT_SOURCE_DIR "/tests/libsim/import/";

}  // namespace

TEST_CASE("hints: files of other programs name the command that reads them") {
  std::string const config = "'" + fixtures + "configs/llama-2-7b.json'";
  std::string const hint =
      "found a config.json of Hugging Face, which stagecraft import huggingface FILE reads; "
      "accepted: a ";
  require_refusal("plan " + config + on_selene + " --gpus 8", {hint + "model file"});
  require_refusal("simulate " + config, {hint + "run file"});
  TemporaryFolder const folder;
  auto const refused = [&](std::string const& name, std::string const& text,
                           std::string const& found) {
    require_refusal("simulate '" + folder.write(name, text) + "'",
                    {"found " + found + "; accepted: a run file"});
  };
  std::string const reads = ", which stagecraft import ";
  std::string const script = "a launch script" + reads + "megatron --script FILE reads";
  require_refusal("simulate '" + fixtures + "scripts/train_gpt3_175b_distributed.sh'",
                  {"found " + script + "; accepted: a run file"});
  refused("a.sh", "torchrun pretrain_gpt.py --num-layers 2\n", script);
  refused("ds.json", R"({"train_batch_size": 8, "zero_optimization": {"stage": 3}})",
          "a configuration of DeepSpeed" + reads + "deepspeed FILE reads");
  refused("a.yaml", "distributed_type: FSDP\nnum_processes: 8\n",
          "a configuration of Accelerate" + reads + "accelerate FILE reads");
  refused("t.toml", "[training]\nseq_len = 8192\n[parallelism]\ntensor_parallel_degree = 2\n",
          "a configuration of torchtitan" + reads + "torchtitan FILE reads");
  // primus/configs/exp_pretrain.yaml; NeMo 1, conf/megatron_gpt_config.yaml.
  refused("p.yaml", "work_group: AMD\nexp_name: x\nmodules: {pre_trainer: {model: m.yaml}}\n",
          "a run file of Primus" + reads + "megatron --yaml FILE reads");
  refused("n.yaml", "trainer: {devices: 8}\nexp_manager: {}\nmodel: {num_layers: 2}\n",
          "a configuration of NeMo, which no command reads");
}

TEST_CASE("hints: precisions, systems and sharding under other names") {
  TemporaryFolder const folder;
  auto const run = [&](std::string const& text) {
    return "simulate '" + folder.write("run.yaml", "model: gpt-22b\nbatch: {global: 4k}\n" + text) +
           "'";
  };
  require_refusal(run("system: a100\n"),
                  {"system: found 'a100', which is neither a file nor a name", "'selene-a100'"});
  require_refusal(run("system: selene-a100\nfsdp: true\n"),
                  {"fsdp: found an unknown key", "fsdp1 and fsdp2 as PyTorch does"});
  for (auto const& [word, meant] :
       {std::pair{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}}) {
    require_refusal(
        run("system: selene-a100\n") + " --set model.precision=" + word,
        {"accepted: fp16, bf16, fp32, fp64; did you mean '" + std::string{meant} + "'?"});
  }
  require_refusal(
      run("system: {base: selene-a100, network: {rails: true}}\n"),
      {"network.rails: found an unknown key", "did you mean 'network.topology.rails'?"});
}

TEST_CASE("hints: Hugging Face's names of a model's keys name those of here") {
  TemporaryFolder const folder;
  require_refusal(
      "plan " +
          folder.write("m.yaml",
                       "{layers: 2, hidden_size: 64, num_attention_heads: 4, sequence: 32, "
                       "vocab_size: 1}") +
          on_selene + " --gpus 8",
      {"hidden_size: found an unknown key", "did you mean 'hidden'?", "did you mean 'heads'?",
       "did you mean 'vocabulary'?"});
}

TEST_CASE("hints: the beginning of a system's name, and keys with dots") {
  TemporaryFolder const folder;
  require_refusal("plan " + model + " --system selene --gpus 8 --global-batch 64",
                  {"found 'selene'", "did you mean 'selene-a100'?"});
  require_refusal(
      "system '" + folder.write("s.yaml", "base: dgx-h100\nnode.bandwidth: 300 GB/s\n") + "'",
      {"s.yaml:2:1: node.bandwidth: found an unknown key",
       "a key of a section is written as node: {bandwidth: ...}"});
}

TEST_CASE("hints: tabs, and files that are missing or unreadable") {
  TemporaryFolder const folder;
  require_refusal("simulate " + folder.write("tab.yaml", "model:\n\tlayers: 2\n"),
                  {"tab.yaml:2:1: found a tab in the indentation; accepted: spaces"});
  require_refusal("simulate no/such.yaml",
                  {"which cannot be opened (No such file or directory; looked for in /"});
  require_refusal("simulate '~/run.yaml'", {"only a shell expands '~'"});
  require_refusal("simulate '$HOME/run.yaml'", {"only a shell expands variables"});
  std::string const locked = folder.write("locked.yaml", "model: x\n");
  std::string const path = locked.substr(locked.front() == '\'' ? 1 : 0,
                                         locked.size() - (locked.front() == '\'' ? 2 : 0));
  std::filesystem::permissions(path, std::filesystem::perms::none);
  ProgramResult const result = run_stagecraft("simulate " + locked);
  // The superuser reads every file, and then finds what is wrong in it.
  REQUIRE(result.exit_code == 2);
  REQUIRE_THAT(result.errors, Catch::Contains("(Permission denied)") || Catch::Contains("missing"));
}

TEST_CASE("hints: plan names the numbers that work") {
  // Llama 3 8B with a batch of 64: 13 divides neither its heads nor the batch, and a pipeline of 13
  // has uneven stages only if they differ by at most a quarter.
  require_refusal("plan " + model + on_selene + " --gpus 67 --fix layout=even",
                  {"--gpus: found '67'", "; the nearest are 66 and 68"});
  // Tensor parallelism divides the 32 heads and the 64 GPUs.
  require_refusal("plan " + model + on_selene + " --gpus 64 --fix tensor=3",
                  {"--fix: found 'tensor=3'", "has: 1, 2, 4, 8, 16, 32\n"});
}

TEST_CASE("hints: a run without a global batch is refused") {
  TemporaryFolder const folder;
  std::string const run = "{model: gpt-22b, system: selene-a100, parallel: {tensor: 8}";
  require_refusal("simulate " + folder.write("none.yaml", run + "}"),
                  {"batch.global: missing; accepted: the sequences of an iteration"});
  require_refusal("simulate " + folder.write("micro.yaml", run + ", batch: {micro: 1}}"),
                  {"batch.global: missing"});
  REQUIRE(
      run_stagecraft("simulate " + folder.write("set.yaml", run + "}") + " --set batch.global=4")
          .exit_code == 0);
}

TEST_CASE("hints: a key that is set twice is refused") {
  require_refusal(
      "simulate " + paper_run("22b-full") + " --set batch.global=8 --set batch.global=4",
      {"--set: found 'batch.global' more than once; accepted: each key once"});
  require_refusal("plan " + model + on_selene + " --gpus 64 --fix tensor=8 --fix tensor=4",
                  {"--fix: found 'tensor' more than once"});
}

TEST_CASE("hints: what plan is asked with a slip of the keyboard") {
  std::string const question = "plan " + model + on_selene + " --gpus 64";
  require_refusal(question + " --fix tensr=4",
                  {"--fix: found 'tensr=4'", "did you mean 'tensor'?"});
  require_refusal(question + " --fix tensor,pipeline",
                  {"NAME=VALUE", "with --fix again for each other name: tensor, pipeline"});
  require_refusal(question + " --fix tensor=1,2,pipeline=1",
                  {"--fix: found 'tensor=1,2,pipeline=1'; accepted: one name for each --fix: "
                   "--fix tensor=1,2 --fix pipeline=1\n"});
  require_refusal(question + " --fix tensor=1 pipeline=1",
                  {"MODEL: found 'pipeline=1' beside the model", ": --fix pipeline=1\n"});
  require_refusal(question + " model.sequence=8192", {": --set model.sequence=8192\n"});
  require_refusal(question + " --safety 99%", {"--safety: found '99%'", "such as 0.99"});
  require_refusal(question + " --power 850",
                  {"--power: found '850'; accepted: watts above 0 with their unit, such as 850W"});
  require_refusal(question + " --power dgx-h100=850", {"--power: found '850'", "0.85kW"});
  require_refusal(question + " --tokens 15t",
                  {"--tokens: found '15t'", "B or T for 10^3, 10^6, 10^9 or 10^12: 300B, 15T"});
  require_refusal(question + " --sequence 8192", {"did you mean '--set model.sequence=VALUE'?"});
  // 4 million sequences of 8,192 tokens are 33 billion; 4 million tokens are 488 of them.
  require_refusal("plan " + model + " --system selene-a100 --gpus 64 --global-batch 4M",
                  {"--global-batch: found '4M' sequences, which are 32.8 billion tokens",
                   "that many tokens are --global-batch 488"});
}

TEST_CASE("hints: a problem that --set makes in a shipped file is at --set") {
  // Llama 3 8B has 8 groups of keys and values, which 20 heads cannot share evenly.
  require_refusal("plan " + model + on_selene +
                      " --gpus 64 --set model.heads=20 --set "
                      "model.head_dim=128",
                  {"--set model.heads=20: model.kv_heads: found '8'", "llama3-8b.yaml:"});
}

TEST_CASE("hints: anchors and merges of YAML are read") {
  TemporaryFolder const folder;
  std::string const text =
      "model: gpt-22b\nsystem: selene-a100\n"
      "parallel: &layout {tensor: 8}\nbatch: {<<: {micro: 4}, global: 4}\n";
  REQUIRE(json_of("simulate --json " + folder.write("merged.yaml", text))
              .at("config")
              .at("batch")
              .at("micro") == 4);
}

TEST_CASE("hints: completion has the names of models, systems and stacks, and the keys of --set") {
  for (std::string const shell : {"bash", "zsh"}) {
    std::string const script = run_stagecraft("completion " + shell).output;
    for (char const* const word :
         {"llama2-70b", "selene-a100", "megatron-core", "parallel.tensor="}) {
      REQUIRE_THAT(script, Catch::Contains(word));
    }
  }
}

}  // namespace stagecraft::hints_test
