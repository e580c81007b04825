#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::plan_units_test {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string const search = "plan llama3-8b --system dgx-h100 --gpus 16 --global-batch 64 ";

}  // namespace

TEST_CASE("plan searches the kinds of sharding of the software stack, or those it is told") {
  auto const kinds = [](std::string const& options) {
    json const result = json_of(search + "--top 1 --json " + options);
    std::string names;
    for (json const& one : result.at("shardings")) {
      names += (names.empty() ? "" : " ") + one.at("sharding").get<std::string>();
    }
    return names;
  };
  REQUIRE(kinds("--fix tensor=2") == "none distributed_optimizer");
  REQUIRE(kinds("--software torchtitan --fix tensor=2") == "fsdp2");
  REQUIRE(kinds("--software torchtitan-eager --fix tensor=2") == "fsdp2");
  REQUIRE(kinds("--software fsdp1 --fix tensor=2") == "fsdp1");
  REQUIRE(kinds("--fix sharding=fsdp2,none --fix tensor=2") == "fsdp2 none");
  REQUIRE(kinds("--sharding any --fix tensor=2") ==
          "none distributed_optimizer fsdp1 fsdp2 zero1 zero2 zero3 megatron_fsdp");
}

TEST_CASE("plan's entries with units are, as run files, what simulate predicts") {
  TemporaryFolder const folder;
  for (std::string const& options :
       {std::string{"--software torchtitan --fix micro=1,2"},
        std::string{"--software fsdp1 --fix tensor=1,2 --fix recompute=uniform,block"},
        std::string{"--sharding fsdp2 --fix tensor=4 --fix recompute=per_stage"},
        std::string{"--sharding megatron_fsdp --set sharding.strategy=optim --fix pipeline=1"},
        std::string{"--sharding megatron_fsdp --fix tensor=1,2 --fix micro=1,2"},
        std::string{"--software torchtitan-eager --fix context=2 --fix tensor=2"}}) {
    CAPTURE(options);
    json const result = json_of(search + "--top 3 --json " + options);
    for (char const* const list : {"best", "pareto"}) {
      for (json const& entry : result.at(list)) {
        json const run =
            json_of("simulate --json '" + folder.write("r.yaml", entry.at("config").dump()) + "'");
        REQUIRE(run.at("iteration_seconds") == entry.at("iteration_seconds"));
        REQUIRE(run.at("stages")[0].at("peak_bytes") == entry.at("peak_bytes"));
        REQUIRE(run.at("config").at("sharding") == entry.at("config").at("sharding"));
      }
    }
  }
}

TEST_CASE("plan searches both ways in which reductions of DeepSpeed's stages run") {
  // The other way, of the best plan that is found, is no faster, whichever is DeepSpeed's default.
  for (std::string const kind : {"zero2", "zero3"}) {
    CAPTURE(kind);
    TemporaryFolder const folder;
    json const best =
        json_of(search + "--fix tensor=1 --top 1 --json --sharding " + kind).at("best")[0];
    json const& sharding = best.at("config").at("sharding");
    bool const overlaps = sharding.is_object() ? sharding.at("overlap").get<bool>()
                                               : sharding.get<std::string>() == "zero3";
    json const other =
        json_of("simulate --json '" + folder.write("r.yaml", best.at("config").dump()) +
                "' --set sharding.overlap=" + (overlaps ? "false" : "true"));
    REQUIRE(best.at("iteration_seconds").get<double>() <=
            other.at("iteration_seconds").get<double>());
    // A layer's gradients are reduced while the layer before it computes: on links of 450 GB/s that
    // takes less time than the computation.
    REQUIRE(overlaps);
  }
}

TEST_CASE("plan searches the strategies of Megatron-FSDP, unless one is held") {
  std::string const small =
      "plan llama2-7b --system dgx-h100 --gpus 8 --global-batch 64 --sharding megatron_fsdp "
      "--fix tensor=1 --fix micro=1,2 --json --top 1 ";
  double least = 1e9;
  for (std::string const strategy : {"optim", "optim_grads", "optim_grads_params"}) {
    json const best = json_of(small + "--set sharding.strategy=" + strategy).at("best")[0];
    json const& sharding = best.at("config").at("sharding");
    REQUIRE((sharding.is_string() ? "optim_grads_params" : sharding.at("strategy")) == strategy);
    least = std::min(least, best.at("iteration_seconds").get<double>());
  }
  REQUIRE(json_of(small).at("best")[0].at("iteration_seconds") == least);
  require_refusal(small + "--set sharding.strategy=all",
                  {"'sharding.strategy=all'; accepted: sharding.strategy= ", "optim_grads"});
}

TEST_CASE("rows of plan's table that differ in a strategy alone show it") {
  std::string const table =
      run_stagecraft(
          "plan llama2-7b --system dgx-h100 --gpus 8 --global-batch 64 "
          "--sharding megatron_fsdp --fix tensor=1 --fix micro=1 --fix pipeline=1 "
          "--fix recompute=none,selective")
          .output;
  CHECK_THAT(table, Contains("mfsdp optim_grads ") && Contains("mfsdp optim "));
}

TEST_CASE("plan's table shows the kinds of sharding where they differ, in 100 columns") {
  ProgramResult const result =
      run_stagecraft(search + "--sharding any --all --price 2.5/gpu-hour --tokens 1e12");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(
      result.output,
      Contains(" sharding ") && Contains("simulated of other kinds of sharding (--sharding KIND"));
  std::istringstream lines{result.output};
  for (std::string line; std::getline(lines, line) && line.find("--") == std::string::npos;) {
    CAPTURE(line);
    REQUIRE(line.size() <= 100);
  }
  REQUIRE_THAT(run_stagecraft(search + "--software torchtitan").output,
               Contains("not searched: pipelines and ranks that split experts") &&
                   Contains("nor sharding none, distributed_optimizer, fsdp1, zero1, zero2, zero3, "
                            "megatron_fsdp: --sharding any"));
}

TEST_CASE("plan --launchable torchtitan writes a job configuration of torchtitan") {
  // torchtitan's flavor 8B has the scaled wavelengths of Llama 3.1; 16 GPUs are two nodes, each a
  // group of eight ranks.
  json const launch =
      json_of(
          "plan llama3.1-8b --system dgx-h100 --gpus 16 --global-batch 64 "
          "--launchable torchtitan --top 1 --json --fix tensor=2 --fix recompute=uniform "
          "--fix micro=2")
          .at("launch");
  REQUIRE(launch.at("framework") == "torchtitan");
  REQUIRE(launch.at("command") == "bash torchrun.sh");
  std::string const job = launch.at("files").at("job.toml");
  REQUIRE_THAT(job,
               Contains("[model]\nname = \"llama3\"\nflavor = \"8B\"\n") &&
                   Contains("local_batch_size = 2\nglobal_batch_size = 64\nseq_len = 8192\n") &&
                   Contains("tensor_parallel_degree = 2\npipeline_parallel_degree = 1\n") &&
                   Contains("[activation_checkpoint]\nmode = \"full\"\nearly_stop = true\n"));
  REQUIRE_THAT(launch.at("files").at("torchrun.sh").get<std::string>(),
               Contains("torchrun --nproc-per-node 8 --nnodes 2 ") &&
                   Contains("-m torchtitan.train --job.config_file"));
}

TEST_CASE(
    "plan compares the recipes of torchao if torchtitan starts the run, and writes its float8") {
  std::string const titan = search + "--launchable torchtitan --top 1 --json --fix tensor=1 ";
  json const plan = json::parse(run_stagecraft(titan + "--precision any").output);
  json const low = plan.at("best")[0].at("config").at("low_precision");
  REQUIRE(low.at("implementation") == "torchao");
  // torchtitan, benchmarks of June 2025: scales of tensors are faster than those of rows and bf16.
  REQUIRE(low.at("recipe") == "current");
  auto const job = [](json const& of) {
    return of.at("launch").at("files").at("job.toml").get<std::string>();
  };
  REQUIRE_THAT(job(json_of(titan + "--precision current")),
               Contains("recipe_name = \"tensorwise\"\n"));
  json const gathered = json_of(titan + "--precision current --set sharding.parameter_dtype=low");
  REQUIRE(gathered.at("best")[0].at("config").at("sharding").at("parameter_dtype") == "low");
  REQUIRE_THAT(job(gathered), Contains("enable_fsdp_float8_all_gather = true\n"));
}

TEST_CASE("a kit for DeepSpeed has the stage, batch and buffers of the plan") {
  // Two of three sizes give the third: runtime/config.py, _set_batch_related_parameters. 16 ranks
  // of 2 sequences and 64 of them: two microbatches.
  json const launch = json_of(search +
                              "--software deepspeed --launchable deepspeed --top 1 --json "
                              "--fix sharding=zero3 --fix recompute=uniform --fix micro=2")
                          .at("launch");
  REQUIRE(launch.at("command") == "bash accelerate.sh");
  json const file = json::parse(launch.at("files").at("deepspeed.json").get<std::string>());
  REQUIRE(file.at("train_batch_size") == 64);
  REQUIRE(file.at("train_micro_batch_size_per_gpu") == 2);
  REQUIRE(file.at("gradient_accumulation_steps") == 2);
  REQUIRE(file.at("zero_optimization").at("stage") == 3);
  // DeepSpeed's own: runtime/zero/config.py, reduce_bucket_size.
  REQUIRE(file.at("zero_optimization").at("reduce_bucket_size") == 500'000'000);
  REQUIRE_THAT(launch.at("files").at("accelerate.yaml").get<std::string>(),
               Contains("distributed_type: DEEPSPEED\nnum_machines: 2\nnum_processes: 16\n"));
  REQUIRE_THAT(launch.at("files").at("train.py").get<std::string>(),
               Contains("num_key_value_heads=8,\n") && Contains("gradient_checkpointing=True"));
}

TEST_CASE("a kit for Accelerate has units, strategy and type of the plan") {
  // FullyShardedDataParallelPlugin.set_mixed_precision: parameters and reductions have one type.
  json const launch = json_of(search +
                              "--launchable accelerate --set sharding.reduce_dtype=bf16 --top 1 "
                              "--json --fix recompute=uniform --fix micro=2")
                          .at("launch");
  REQUIRE(launch.at("framework") == "accelerate");
  REQUIRE(launch.at("command") == "bash accelerate.sh");
  REQUIRE_THAT(launch.at("files").at("accelerate.yaml").get<std::string>(),
               Contains("distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\n"
                        "num_processes: 16\n") &&
                   Contains("fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n") &&
                   Contains("fsdp_activation_checkpointing: true\n"));
  // No plan with other types can be launched, and the refusal says why.
  require_refusal(search + "--launchable accelerate --top 1",
                  {"--launchable: found 'accelerate', which can run no plan of this model on 16 "
                   "GPUs (sharding.reduce_dtype: Accelerate reduces in the model's type (--set "
                   "sharding.reduce_dtype=bf16)); accepted: plans without that"});
  // transformers refuses both kinds of checkpoints together.
  REQUIRE_THAT(launch.at("files").at("train.py").get<std::string>(),
               Contains("gradient_accumulation_steps=2,") && !Contains("gradient_checkpointing"));
}

TEST_CASE("a type of reductions that --set gives holds for all kinds with units") {
  json const result = json_of(search +
                              "--software torchtitan --set sharding.reduce_dtype=bf16 "
                              "--top 1 --json");
  REQUIRE(result.at("best").front().at("config").at("sharding").at("reduce_dtype") == "bf16");
  require_refusal(search + "--set sharding.reduce_dtype=int8", {"sharding.reduce_dtype=", "fp32"});
  for (std::string const key : {"sharding.stored_dtype=", "sharding.reduce_dtype="}) {
    require_refusal(
        search + "--software torchtitan --set " + key + "low",
        {"--set: found '" + key + "low'; accepted: " + key + " auto, fp32, bf16, fp16"});
  }
  require_refusal(search + "--software torchtitan --set sharding.parameter_dtype=low",
                  {"--set: found 'sharding.parameter_dtype=low'; accepted: ",
                   "`low_precision: {recipe: current, implementation: torchao}`"});
}

TEST_CASE("a torchtitan job says the ranks that share units, and copies, and adds its model") {
  std::string const seven = "plan llama2-7b --system dgx-h100 --gpus 16 --global-batch 64 ";
  json const result =
      json_of(seven + "--launchable torchtitan --top 30 --json --fix tensor=1 --fix micro=1");
  json const& files = result.at("launch").at("files");
  // 8/3 of 4096 is 10922, which multiple_of rounds up to 11008.
  REQUIRE_THAT(files.at("planned_flavor.py").get<std::string>(),
               Contains("dim=4096,\n    n_layers=32,\n    n_heads=32,\n    n_kv_heads=32,\n") &&
                   Contains("multiple_of=11008,\n    norm_eps="));
  REQUIRE_THAT(files.at("job.toml").get<std::string>(),
               Contains("custom_import = \"planned_flavor\""));
  // Checkpoints of the first K layers are those of every N-th layer, if that are as many.
  for (json const& entry : result.at("best")) {
    json const& recompute = entry.at("config").at("recompute");
    if (recompute.value("method", "") != "block") continue;
    int const layers = recompute.at("layers");
    CAPTURE(layers);
    REQUIRE((layers == 16 || layers == 10 || layers == 8 || layers == 6 || layers <= 5));
  }
}

TEST_CASE("plan refuses unknown kinds of sharding, and a framework that has none of a model's") {
  require_refusal(search + "--sharding fsdp3",
                  {"--sharding: found 'fsdp3'; accepted: none, distributed_optimizer, fsdp1, "
                   "fsdp2, zero1, zero2, zero3, megatron_fsdp, with "});
  require_refusal(search + "--sharding none,distributed_optimiser",
                  {"any; did you mean 'distributed_optimizer'?"});
  require_refusal(
      search + "--set sharding=fsdp2",
      {"--set: found 'sharding=fsdp2', which the search decides; accepted: --sharding"});
  require_refusal(
      "plan gpt-22b --system selene-a100 --gpus 8 --global-batch 8 --launchable "
      "torchtitan",
      {"--launchable: found 'torchtitan', which can run no plan of this model (",
       "torchtitan's Llama has RMSNorm"});
  require_refusal(search + "--software torchtitan --fix pipeline=2", {"--fix: found 'pipeline=2'"});
  // Transformer Engine's weights have no units, whatever the number of GPUs.
  require_refusal(search + "--launchable torchtitan --set low_precision=current",
                  {"--set: found 'low_precision=current', with which no run of this model is legal",
                   "with the software 'torchtitan'"});
}

}  // namespace stagecraft::plan_units_test
