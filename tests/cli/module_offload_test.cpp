#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

/// Expected bytes are counted by what PyTorch saves in each module of Megatron-LM d98e8a64, and by
/// which groups fine_grained_activation_offload.py keeps on the device.
namespace stagecraft::module_offload_test {
namespace {

using Catch::Contains;
using nlohmann::json;

/// Elements of a hidden state: the least that leaves.
constexpr std::int64_t sbh = std::int64_t{1024} * 1024;
constexpr double link = 16e9;  ///< bytes/s of an accelerator: half of what two share

std::string run_file(TemporaryFolder const& folder) {
  return "'" +
         folder.write(
             "run.yaml",
             "model: {layers: 6, hidden: 1024, heads: 8, sequence: 1024, vocabulary: 32768,\n"
             "        norm: rmsnorm, positions: rotary, tied_embeddings: false, biases: false,\n"
             "        dropout: 0, attention: flash, causal_mask: none, precision: bf16}\n"
             "system: {base: dgx-h100, node: {host_memory: {value: 1 TB, source: invented}},\n"
             "         accelerator: {host_link: {value: {bandwidth: 32 GB/s, accelerators: 2},\n"
             "                                   source: invented}}}\n"
             "parallel: {tensor: 1, data: 8}\n"
             "batch: {global: 8, micro: 1}\n"
             "sharding: distributed_optimizer\n") +
         "' ";
}

std::string offload(std::string const& keys) {
  return "--set 'offload={activations: {" + keys + "}}' ";
}

std::string const attention = "modules: [core_attn, attn_proj]";
std::string const experts = "--set \"model.experts={count: 8, per_token: 2, ffn_hidden: 1024}\" ";
std::string const stages = "--set parallel.pipeline=2 --set parallel.data=4 ";

json stage_of(json const& run, std::size_t stage = 0) { return run.at("stages").at(stage); }

std::int64_t activations(json const& run, std::size_t stage = 0) {
  return stage_of(run, stage).at("at_peak").at("activations").get<std::int64_t>();
}

}  // namespace

TEST_CASE("modules of all layers but the last leave what they save, each by its own copy") {
  TemporaryFolder const folder;
  // Bytes per layer and per element of a hidden state. Attention saves rotated queries and keys,
  // the values, which are a third of their buffer, and the context. The projection saves the
  // context again. The linear layer of queries, keys and values has its norm in it, so it saves the
  // norm's input and output.
  struct Case {
    std::string modules;
    std::int64_t to_host;
    std::int64_t off_device;
  };
  json const none = json_of("simulate --json " + run_file(folder));
  for (Case const& c :
       {Case{"core_attn, attn_proj", 8 + 2, 6 + 2 + 2 + 2}, Case{"core_attn", 8, 6 + 2 + 2},
        Case{"qkv_linear", 4, 4}, Case{"attn_norm, mlp_norm, expert_fc1, moe_act", 0, 0}}) {
    INFO(c.modules);
    json const run =
        json_of("simulate --json " + run_file(folder) + offload("modules: [" + c.modules + "]"));
    REQUIRE(stage_of(run).at("host_bytes") == 5 * c.to_host * sbh);
    REQUIRE(activations(run) == activations(none) - 5 * c.off_device * sbh);
  }
}

TEST_CASE("experts leave their rows, what their activation reads, and their norm its input") {
  // Two rows per token. The activation is not gated, and as wide as the model.
  TemporaryFolder const folder;
  json const none = json_of("simulate --json " + run_file(folder) + experts);
  for (auto const& [modules, bytes] :
       {std::pair{"expert_fc1", 4}, {"moe_act", 4}, {"mlp_norm", 2}, {"mlp_norm, moe_act", 6}}) {
    INFO(modules);
    json const run = json_of("simulate --json " + run_file(folder) + experts +
                             offload("modules: [" + std::string{modules} + "]"));
    REQUIRE(stage_of(run).at("host_bytes") == 5 * bytes * sbh);
    REQUIRE(activations(run) == activations(none) - 5 * bytes * sbh);
  }
}

TEST_CASE("a fraction counts the groups of a chunk, from the first on") {
  // Twelve groups, of which int(12 (1 - F)) stay; of more than one microbatch, as in the first one
  // Megatron-LM does not count those of the last layer.
  TemporaryFolder const folder;
  auto const on_host = [&](std::string const& fraction) {
    return stage_of(json_of("simulate --json " + run_file(folder) + " --set batch.global=16 " +
                            offload(attention + ", fraction: " + fraction)))
        .at("host_bytes");
  };
  REQUIRE(on_host("0.5") == 3 * 10 * sbh);
  REQUIRE(on_host("0.25") == (10 + 8) * sbh);
  REQUIRE(on_host("0") == 0);
  REQUIRE(on_host("1") == 5 * 10 * sbh);
}

TEST_CASE("the hosts of stages have the groups of the microbatches in flight") {
  TemporaryFolder const folder;
  std::string const run = "simulate --json " + run_file(folder) + offload(attention) + stages;
  // 1F1B: two microbatches of three layers, and one of three of which the last stays.
  json const plain = json_of(run);
  REQUIRE(stage_of(plain, 0).at("host_bytes") == 2 * 3 * 10 * sbh);
  REQUIRE(stage_of(plain, 1).at("host_bytes") == 2 * 10 * sbh);
  // Chunks of a layer: the first stage begins seven passes before a backward ends, the second five
  // of chunks that are not the last; nothing of the last chunk leaves.
  json const chunks =
      json_of(run + "--set parallel.interleave=3 --set schedule=interleaved --set batch.global=16");
  REQUIRE(stage_of(chunks, 0).at("host_bytes") == 7 * 10 * sbh);
  REQUIRE(stage_of(chunks, 1).at("host_bytes") == 5 * 10 * sbh);
}

TEST_CASE("a stage's device has two layers' groups of those that leave") {
  // A layer saves 36 bytes per element of a hidden state, of which 12 leave. The first of two
  // stages has two microbatches of three layers in flight. Without offloading, the peak is in the
  // backward of the last layer's MLP, with two gradients of 8 + 2. With offloading, the peak is at
  // the end of that layer's forward: the last two layers have all that they save, and two outputs
  // have 2 each.
  TemporaryFolder const folder;
  std::string const run = "simulate --json " + run_file(folder) + stages;
  std::int64_t const without = 6 * 36 + 8 + 2;
  std::int64_t const with = 4 * (36 - 12) + 2 * 36 + 2 + 2;
  REQUIRE(activations(json_of(run)) - activations(json_of(run + offload(attention))) ==
          (without - with) * sbh);
  // The second has logits at its peak: of its last layer all is there.
  REQUIRE(activations(json_of(run), 1) - activations(json_of(run + offload(attention)), 1) ==
          2 * 12 * sbh);
}

TEST_CASE("copies of modules show as far as the layers beside them are faster") {
  TemporaryFolder const folder;
  json const none = json_of("simulate --json " + run_file(folder));
  json const& parts = none.at("breakdown_seconds");
  auto const offload_seconds = [](json const& run) {
    return run.at("breakdown_seconds").at("offload").get<double>();
  };
  // Five layers' copies, each way beside five layers.
  double const copies = 2 * 5 * 10 * sbh / link;
  double const hidden =
      5.0 / 6 * (parts.at("forward").get<double>() + parts.at("backward").get<double>());
  json const one_stage = json_of("simulate --json " + run_file(folder) + offload(attention));
  REQUIRE(offload_seconds(one_stage) == Approx(copies - hidden).epsilon(1e-9));
  json const fast = json_of("simulate --json " + run_file(folder) + offload(attention) +
                            "--set 'system.accelerator.host_link={value: {bandwidth: 9000 GB/s, "
                            "accelerators: 1}, source: invented}' ");
  REQUIRE(offload_seconds(fast) == 0);
  REQUIRE(fast.at("iteration_seconds") == none.at("iteration_seconds"));
}

TEST_CASE("what is computed again does not leave, and what it is computed from does") {
  TemporaryFolder const folder;
  auto const on_host = [&](std::string const& recompute, std::string const& modules) {
    return stage_of(json_of("simulate --json " + run_file(folder) + experts +
                            "--set 'recompute={granularity: selective, modules: [" + recompute +
                            "]}' " + offload("modules: [" + modules + "]")))
        .at("host_bytes");
  };
  REQUIRE(on_host("core_attention", "core_attn") == 0);
  REQUIRE(on_host("core_attention", "core_attn, attn_proj") == 5 * 2 * sbh);
  REQUIRE(on_host("moe_act", "moe_act") == 5 * 4 * sbh);
  REQUIRE(on_host("layernorm", "mlp_norm") == 5 * 2 * sbh);
}

TEST_CASE("a run that offloads modules is printed, and told apart by its plan") {
  TemporaryFolder const folder;
  std::string const run = "simulate --json " + run_file(folder);
  json const of_attention = json_of(run + offload(attention + ", fraction: 0.5"));
  REQUIRE(of_attention.at("plan") != json_of(run + offload(attention)).at("plan"));
  REQUIRE(of_attention.at("config").at("offload") ==
          json::parse(R"({"activations": {"modules": ["core_attn", "attn_proj"],
                                          "fraction": 0.5}})"));
  std::string const printed = folder.write("p.yaml", of_attention.at("config").dump());
  REQUIRE(json_of("simulate --json '" + printed + "'").at("plan") == of_attention.at("plan"));
  std::string const against = folder.write("none.yaml", json_of(run).at("config").dump());
  REQUIRE_THAT(run_stagecraft("simulate " + run_file(folder) + offload(attention) + "--against '" +
                              against + "'")
                   .output,
               Contains("[\"core_attn\",\"attn_proj\"]"));
}

TEST_CASE("explain offers to offload modules where there are some") {
  TemporaryFolder const folder;
  std::string const all = "explain --all " + run_file(folder) + stages;
  REQUIRE_THAT(run_stagecraft(all).output, Contains("offload attention's operands"));
  REQUIRE_THAT(run_stagecraft(all + experts).output, Contains("offload the inputs of experts"));
}

TEST_CASE("modules that Megatron-LM does not offload so are refused") {
  TemporaryFolder const folder;
  std::string const run = "simulate " + run_file(folder);
  std::string const some = run + offload(attention);
  require_refusal(run + offload("modules: [mlp]"), {"modules", "'mlp'", "attn_norm, qkv_linear"});
  require_refusal(run + offload("modules: [core_attn, core_attn]"), {"each module once"});
  require_refusal(run + offload("modules: core_attn"), {"a list of attn_norm"});
  require_refusal(run + offload("modules: [attn_proj]"),
                  {"offload.activations.modules: found a list; accepted: core_attn beside"});
  require_refusal(run + offload(attention + ", fraction: 1.5"), {"fraction", "1.5", "0 to 1"});
  require_refusal(run + offload("fraction: 0.5"), {"fraction", "modules beside it"});
  require_refusal(run + offload(attention + ", layers: 3"), {"layers or modules"});
  require_refusal(run + offload("chunks: all"), {"chunks", "layers or modules"});
  require_refusal(some + "--set schedule=gpipe", {"schedule", "1f1b, interleaved"});
  require_refusal(some + "--set recompute=full", {"recompute: found 'full'", "none, selective"});
  require_refusal(some + "--set sharding=fsdp2", {"megatron_fsdp, as offload.activ"});
  std::string const inner = run + experts + offload("modules: [moe_act, expert_fc1]");
  require_refusal(inner + "--set 'recompute={granularity: selective, modules: [moe]}'",
                  {"recompute.modules", "moe", "modules of experts are offloaded"});
  require_refusal(inner + "--set 'low_precision={recipe: current}'", {"none, mxfp8, nvfp4"});
}

}  // namespace stagecraft::module_offload_test
