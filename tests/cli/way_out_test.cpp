#include <array>
#include <catch2/catch.hpp>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

// Questions that somebody who buys a cluster asks, and that have another answer than the asked one.

namespace stagecraft::way_out_test {

namespace {

std::string const run = "simulate " + paper_run("22b-full");
std::string const models = STAGECRAFT_SOURCE_DIR "/configs/models/";
std::string const llama =
    "simulate '" STAGECRAFT_SOURCE_DIR "/configs/examples/llama2-70b-64-h100.yaml'";
std::string const fixtures = STAGECRAFT_SOURCE_DIR "/tests/libsim/import/";

}  // namespace

TEST_CASE("way out: what is not modelled is said with what comes nearest") {
  for (std::string const key : {"parallel.zero=3", "parallel.fsdp=true", "memory.zero_stage=2"}) {
    require_refusal(run + " --set " + key,
                    {"found an unknown key", "zero1, zero2 and zero3 as DeepSpeed does",
                     "`sharding: distributed_optimizer` as Megatron-LM does"});
  }
  require_refusal(run + " --set memory.offload=true", {"key offload of the run says what"});
  require_refusal(run + " --set model.precision=fp8",
                  {"found 'fp8'; accepted: fp16, bf16, fp32, fp64; products in 8 bits are "
                   "key low_precision"});
  require_refusal(run + " --set batch.tokens=4000000", {"global counts sequences"});
  require_refusal(run + " --set training.optimizer=lion", {"the optimizer is Adam"});
  require_refusal(run + " --set precision=bf16", {"did you mean 'model.precision'?"});
}

TEST_CASE("way out: 8 bits are refused where the accelerator or the model of them ends") {
  std::string const accepted = "low_precision: found 'mxfp8'; accepted: none, delayed, current";
  require_refusal(llama + " --set low_precision=mxfp8", {accepted, "which Blackwell has"});
  require_refusal(llama + " --set low_precision=current --set system=selene-a100",
                  {"found 'current'; accepted: none, as system.accelerator.peak has no fp8"});
  require_refusal(llama +
                      " --set system=b200-hgx --set "
                      "'low_precision={recipe: nvfp4, format: hybrid}'",
                  {"low_precision.format: found 'hybrid'; accepted: auto"});
  require_refusal(llama + " --set low_precision=rowwise",
                  {"low_precision.implementation: found 'transformer_engine' (the default); "
                   "accepted: torchao, as "});
  for (auto const& [key, found, what] :
       {std::array{"transposes", "make_again", "auto or keep: "},
        {"head", "true", "false, as "},
        {"gather", "high", "auto or low: "},
        {"dispatch", "low", "high, as "},
        {"implementation", "deepseek", "transformer_engine, torchao, as "}}) {
    require_refusal(
        llama + " --set 'low_precision={recipe: current, " + key + ": " + found + "}'",
        {std::string{"low_precision."} + key + ": found '" + found + "'; accepted: " + what});
  }
  require_refusal(llama +
                      " --set 'low_precision={recipe: current, parameters: low}' --set "
                      "memory.distributed_optimizer=false",
                  {"low_precision.parameters: found 'low'; accepted: high, or sharding: "});
  require_refusal(llama +
                      " --set low_precision=delayed --set 'recompute={granularity: selective, "
                      "modules: [layernorm]}'",
                  {"recompute.modules: found a list; accepted: a list without layernorm, as "});
  require_refusal(llama + " --set 'low_precision={recipe: delayed, keep_high: {first: 1}}'",
                  {"low_precision.keep_high.first: found '1'; accepted: 0, as "});
  require_refusal(llama + " --set 'low_precision={recipe: blockwise, dispatch: low}'",
                  {"low_precision.dispatch: found 'low'; accepted: high, as dispatch is alltoall"});
  require_refusal(llama +
                      " --set 'low_precision={recipe: blockwise, attention: true}' --set "
                      "parallel.context=2",
                  {"low_precision.attention: found 'true'; accepted: false, as parallel.context"});
  require_refusal(llama +
                      " --set low_precision=current --set sharding=fsdp2 --set "
                      "parallel.pipeline=1 --set parallel.data=8",
                  {"sharding: found 'fsdp2'; accepted: none, distributed_optimizer, zero1, as ",
                   "fsdp2 goes with implementation: torchao"});
}

TEST_CASE("way out: what torchao and torchtitan do not do is said with their reason") {
  std::string const of_torchao =
      " --set parallel.pipeline=1 --set parallel.data=8 --set "
      "'low_precision={implementation: torchao, ";
  std::string const torchao = llama + " --set sharding=fsdp2" + of_torchao;
  std::string const current = torchao + "recipe: current}'";
  auto const found = [](std::string const& key, std::string const& value) {
    return "low_precision." + key + ": found '" + value + "'; accepted: ";
  };
  for (auto const& [key, value, accepted] :
       {std::array<std::string, 3>{"head", "true", "false, as "},
        {"attention", "true", "false, as "},
        {"activation_input", "true", "false, as "},
        {"parameters", "low", "high, as "},
        {"transposes", "keep", "auto, as "},
        {"format", "e4m3", "auto, as "}}) {
    require_refusal(torchao + "recipe: current, " + key + ": " + value + "}'",
                    {found(key, value) + accepted});
  }
  require_refusal(torchao + "recipe: mxfp8}' --set system=b200-hgx",
                  {found("implementation", "torchao") + "transformer_engine, as ",
                   "torchao.float8 has current and rowwise"});
  require_refusal(torchao + "recipe: rowwise, gather: low}'",
                  {found("gather", "low") + "auto or high", "all that travels has 16 bits"});
  require_refusal(torchao + "recipe: current, keep_high: {wgrad: true}}'",
                  {found("keep_high.wgrad", "true") + "false", "rowwise_with_gw_hp"});
  // torchao/float8/config.py: enable_fsdp_float8_all_gather only supports tensorwise scaling.
  require_refusal(torchao + "recipe: rowwise}' --set sharding.parameter_dtype=low",
                  {"sharding.parameter_dtype: found 'low'; accepted: auto, as low_precision is "});
  require_refusal(llama + " --set sharding=fsdp2 --set sharding.parameter_dtype=low",
                  {"`low_precision: {recipe: current, implementation: torchao}`"});
  require_refusal(llama + " --set sharding=zero3" + of_torchao + "recipe: current}'",
                  {"sharding: found 'zero3'; accepted: none, fsdp2, as "});
  require_refusal(current + " --set parallel.tensor=2 --set parallel.sequence=false",
                  {"parallel.sequence: found 'false'; accepted: true, as "});
  require_refusal(current + " --set 'model.experts={count: 8, per_token: 2, ffn_hidden: 1024}'",
                  {found("implementation", "torchao"), "a prototype"});
}

TEST_CASE("way out: a system's keys are found from the wrong section, and names from their parts") {
  TemporaryFolder const folder;
  require_refusal(
      "system '" + folder.write("s.yaml", "base: dgx-h100\nnode: {adapters: 4, gpus: 4}\n") + "'",
      {"s.yaml:2:8: node.adapters: found an unknown key", "did you mean 'network.adapters'?",
       "did you mean 'accelerators'?"});
  require_refusal("system h100", {"did you mean 'azure-nd-h100', 'dgx-h100' or 'h100-pcie'?"});
  require_refusal("simulate llama3-8b",
                  {"found 'llama3-8b', which is a name of configs/models (stagecraft plan takes"});
  require_refusal(run + " --set schedule=1F1B", {"did you mean '1f1b'?"});
  require_refusal(run + " --set recompute=Full", {"did you mean 'full'?"});
}

TEST_CASE("way out: an accelerator without memory is refused") {
  TemporaryFolder const folder;
  require_refusal(
      "system '" + folder.write("s.yaml", "base: dgx-h100\naccelerator: {memory: 0 GiB}\n") + "'",
      {"s.yaml:2:23: accelerator.memory: found '0 GiB'; accepted: a size above 0 B"});
  require_refusal(run + " --set system.accelerator.memory=0GiB", {"a size above 0 B"});
}

TEST_CASE("way out: a part of a constant is set alone, and its source is the user") {
  std::string const part = " --set system.node.all_gather.bandwidth=185GB/s";
  std::string const whole = " --set 'system.node.all_gather={latency: 40 us, bandwidth: 185 GB/s}'";
  ProgramResult const alone = run_stagecraft(llama + part + " --json");
  ProgramResult const both = run_stagecraft(llama + whole + " --json");
  REQUIRE(alone.exit_code == 0);
  REQUIRE_THAT(alone.errors, Catch::Contains("node.all_gather (given in --set " + part.substr(7)));
  auto const document = nlohmann::json::parse(alone.output);
  auto const constant = document["config"]["system"]["node"]["all_gather"];
  REQUIRE(constant["value"]["bandwidth"] == "185 GB/s");
  REQUIRE(constant["value"]["latency"] == "40 us");
  REQUIRE(constant["source"] == "given in --set " + part.substr(7));
  REQUIRE(document["iteration_seconds"] == nlohmann::json::parse(both.output)["iteration_seconds"]);
}

TEST_CASE("way out: more tensor ranks than key and value heads are remarked on") {
  // Llama 2 70B has 8 of them.
  std::string const remark = "16 tensor ranks share 8 key and value heads: 2 ranks hold the same";
  REQUIRE_THAT(run_stagecraft(llama + " --set parallel.tensor=16").errors,
               Catch::Contains("parallel.tensor: " + remark));
  REQUIRE_THAT(run_stagecraft(llama).errors, !Catch::Contains("tensor ranks share"));
  ProgramResult const plan =
      run_stagecraft("plan '" + models + "llama2-70b.yaml' --system dgx-h100 --gpus 64 " +
                     "--global-batch 64 --fix tensor=16 --fix pipeline=4 --fix recompute=none");
  REQUIRE_THAT(plan.output, Catch::Contains("#1: " + remark));
}

TEST_CASE("way out: if nothing fits, plan says how many GPUs the state needs and how they split") {
  // 70,553,706,496 parameters of 18 bytes are 1,182.7 GiB; 74 GiB per GPU are beside reserve and
  // margin, so 16 GPUs.
  ProgramResult const eight =
      run_stagecraft("plan '" + models + "llama3-70b.yaml' --system dgx-h100 --gpus 8 " +
                     "--global-batch 64 --fix pipeline=1");
  REQUIRE(eight.exit_code == 3);
  REQUIRE_THAT(eight.errors, Catch::Contains("GiB, which need at least 16 of these GPUs"));
  ProgramResult const thirteen = run_stagecraft(
      "plan '" + models + "llama2-70b.yaml' --system dgx-h100 --gpus 13 " + "--global-batch 128");
  REQUIRE_THAT(eight.errors, !Catch::Contains("model splits over"));  // in more than three ways
  ProgramResult const fixed =
      run_stagecraft("plan '" + models + "llama3-70b.yaml' --system dgx-h100 --gpus 8 " +
                     "--global-batch 64 --fix tensor=1 --fix pipeline=1");
  REQUIRE_THAT(fixed.errors, Catch::Contains("With --fix tensor=1 --fix pipeline=1 this model "
                                             "splits over 8 GPUs only as tensor 1 x"));
  REQUIRE_THAT(thirteen.errors,
               Catch::Contains("splits over 13 GPUs only as tensor 1 x pipeline 13 x data 1"));
}

TEST_CASE("way out: files given to the wrong command name the right one") {
  require_refusal("import huggingface '" + fixtures + "scripts/train_gpt3_175b_distributed.sh'",
                  {"found a launch script, which stagecraft import megatron --script FILE reads"});
  require_refusal(
      "import megatron --script '" + fixtures + "configs/llama-2-7b.json'",
      {"found a config.json of Hugging Face, which stagecraft import huggingface FILE reads"});
  ProgramResult const report = run_stagecraft("report " + paper_run("22b-full") + " -o x.html");
  REQUIRE(report.exit_code != 0);
  REQUIRE_THAT(report.errors, Catch::Contains("is not an HDF5 file (stagecraft simulate RUN.yaml "
                                              "--trace F.h5 writes the trace of a run)"));
}

TEST_CASE("way out: options that have another name here") {
  require_refusal(run + " --energy 3", {"--energy: found an unknown", "did you mean '--power'?"});
  require_refusal(run + " --cost 3", {"did you mean '--price'?"});
  require_refusal("fit " + paper_run("22b-present") + " --measured 1.25",
                  {"found '1.25'; accepted: the time of an iteration with its unit, such as"});
}

TEST_CASE("way out: a run that does not fit points to explain") {
  ProgramResult const full = run_stagecraft(llama + " --set batch.micro=32 --set batch.global=128");
  REQUIRE(full.exit_code == 0);
  REQUIRE_THAT(full.output, Catch::Contains("do not fit"));
  REQUIRE_THAT(full.errors, Catch::Contains("note: `stagecraft explain` with the same file"));
  REQUIRE_THAT(run_stagecraft(llama).errors, !Catch::Contains("stagecraft explain"));
}

TEST_CASE("way out: plan's legend has the words that its table has") {
  std::string const search = "plan '" + models +
                             "gpt3-175b.yaml' --system selene-a100 --gpus 64 --global-batch 64 "
                             "--fix recompute=window --top 1 ";
  ProgramResult const plan = run_stagecraft(search, "COLUMNS=200");
  REQUIRE_THAT(plan.output,
               Catch::Contains("+N: N microbatches of each window keep everything)\n"));
  REQUIRE_THAT(plan.output, !Catch::Contains("full first N"));
  REQUIRE_THAT(plan.output, !Catch::Contains("each of the other plans"));  // there is none
  REQUIRE_THAT(run_stagecraft(search + "--all").output,
               Catch::Contains("data, steps and checkpoints are to be added"));
}

TEST_CASE("way out: kinds of sharding that no plan has are told by the option that names them") {
  require_refusal("plan '" + models +
                      "llama3-8b.yaml' --set model.predicted_tokens=1 --system dgx-h100 --gpus 16 "
                      "--global-batch 128 --sharding fsdp2",
                  {"--sharding: found 'sharding=fsdp2'", "units go with model.predicted_tokens 0"});
}

}  // namespace stagecraft::way_out_test
