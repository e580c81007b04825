#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/config/yaml_text.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/modules/blocks.hpp"

namespace stagecraft::experts_config_test {
namespace {

/// L = 6, h = 64, a = 8, unless `more` says otherwise.
ModelConfig read(std::string const& more) {
  std::string const text =
      "layers: 6\nhidden: 64\nheads: 8\nsequence: 32\nvocabulary: 100\n" + more;
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "m.yaml", diagnostics);
  diagnostics.throw_if_any();
  ModelConfig model = read_model_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return model;
}

std::string problem(std::string const& more) {
  try {
    read(more);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "";
}

/// A layer for each letter: s for sparse, d for dense.
std::string kinds_of(ModelConfig const& model) {
  LayerKinds const kinds{model};
  std::string text;
  for (int i = 0; i < kinds.layers(); ++i) text += kinds.of_layer(i).experts ? 's' : 'd';
  return text;
}

std::string const three = "count: 8, per_token: 2, ffn_hidden: 96";

TEST_CASE("every key of experts is read", "[model]") {
  ModelConfig const model = read(
      "experts: {" + three +
      ", shared_ffn_hidden: 32, shared_gate: true, first_dense: 1, every: 2, offset: 1, "
      "probabilities_on: input, biases: true, router: {score: sigmoid, order: before, normalise: "
      "false, scaling: 2.5, groups: 4, groups_per_token: 2, bias: true, precision: model, loss: "
      "sequence_auxiliary, loss_coefficient: 0.01, z_loss: 0.001}}");
  ExpertsConfig const expected{.count = 8,
                               .per_token = 2,
                               .ffn_hidden = 96,
                               .shared_ffn_hidden = 32,
                               .shared_gate = true,
                               .first_dense = 1,
                               .every = 2,
                               .offset = 1,
                               .probabilities_on = ProbabilitiesOn::input,
                               .biases = true,
                               .router = {.score = RouterScore::sigmoid,
                                          .order = RouterOrder::before,
                                          .normalise = false,
                                          .scaling = 2.5,
                                          .groups = 4,
                                          .groups_per_token = 2,
                                          .bias = true,
                                          .precision = RouterPrecision::model,
                                          .loss = RouterLoss::sequence_auxiliary,
                                          .loss_coefficient = 0.01,
                                          .z_loss = 0.001}};
  REQUIRE(model.experts == expected);
  REQUIRE_FALSE(read("").experts);
  REQUIRE_FALSE(read("experts: none").experts);
}

TEST_CASE("layers are dense up to first_dense, then every n-th is sparse", "[model]") {
  REQUIRE(kinds_of(read("")) == "dddddd");
  REQUIRE(kinds_of(read("experts: {" + three + "}")) == "ssssss");
  REQUIRE(kinds_of(read("experts: {" + three + ", first_dense: 3}")) == "dddsss");
  REQUIRE(kinds_of(read("experts: {" + three + ", every: 2}")) == "sdsdsd");
  REQUIRE(kinds_of(read("experts: {" + three + ", every: 2, offset: 1}")) == "dsdsds");
  REQUIRE(kinds_of(read("experts: {" + three + ", first_dense: 1, every: 3, offset: 2}")) ==
          "dddsdd");
  REQUIRE(kinds_of(read("experts: {" + three +
                        "}\npattern: [{kind: {experts: none}, count: 2}, {}]")) == "ddsdds");
  REQUIRE(kinds_of(read("pattern: [{}, {kind: {experts: {" + three + "}}}]")) == "dsdsds");
  std::vector<LayerRun> const runs = layer_runs(read("experts: {" + three + ", first_dense: 4}"));
  REQUIRE(runs.size() == 2);
  REQUIRE(runs[0].count == 4);
  REQUIRE(runs[1].count == 2);
}

TEST_CASE("a model with experts is written as it is read", "[model]") {
  std::vector<std::string> const texts{
      "experts: {" + three + "}",
      "experts: {" + three + ", shared_ffn_hidden: 8, router: {score: sigmoid, groups: 2}}",
      "experts: {" + three +
          "}\npattern: [{kind: {experts: none}}, {kind: {experts: {count: 4}}}]"};
  for (std::string const& rest : texts) {
    CAPTURE(rest);
    ModelConfig const model = read(rest);
    Diagnostics diagnostics;
    auto const root = parse_yaml(yaml_text(to_json(model)), "again.yaml", diagnostics);
    REQUIRE(read_model_config(ConfigNode{*root, "", diagnostics}) == model);
    REQUIRE(diagnostics.problems().empty());
  }
  REQUIRE_FALSE(to_json(read("")).contains("experts"));
}

TEST_CASE("experts that no model can have are refused with place, found and accepted", "[model]") {
  auto const refused = [](std::string const& experts, std::string const& message) {
    CAPTURE(experts);
    REQUIRE_THAT(problem("experts: " + experts), Catch::Contains(message));
  };
  refused("7", "m.yaml:6:10: experts: found '7'; accepted: none, or a map with the keys count");
  refused("{count: 8}", "experts.per_token");
  refused("{count: 8, per_token: 9, ffn_hidden: 4}",
          "m.yaml:6:32: experts.per_token: found '9'; accepted: at most experts.count (8)");
  refused("{" + three + ", router: {groups: 3}}",
          "experts.router.groups: found '3'; accepted: a divisor of experts.count (8)");
  refused(
      "{" + three + ", router: {groups: 2, groups_per_token: 3}}",
      "experts.router.groups_per_token: found '3'; accepted: at most experts.router.groups (2)");
  refused("{count: 8, per_token: 5, ffn_hidden: 4, router: {groups: 4, groups_per_token: 2}}",
          "experts.per_token: found '5'; accepted: at most the 4 experts of "
          "experts.router.groups_per_token (2) groups");
  refused("{" + three + ", first_dense: 6}",
          "experts.first_dense: found '6'; accepted: less than layers (6)");
  refused("{" + three + ", every: 2, offset: 2}",
          "experts.offset: found '2'; accepted: less than experts.every (2)");
  refused("{" + three + ", shared_gate: true}",
          "experts.shared_gate: found 'true'; accepted: false, as experts.shared_ffn_hidden is 0");
  refused("{" + three + ", router: {kept: 1}}", "experts.router.kept: found an unknown key");
  refused("{" + three + "}\nresidual: parallel",
          "residual: found 'parallel'; accepted: sequential, as the layer has experts");
}

/// Attention of grouped queries with rotary positions, without biases; two norms; untied
/// embeddings.
std::string zoo(int layers, int hidden, int heads, int kv_heads, int vocabulary) {
  return "layers: " + std::to_string(layers) + "\nhidden: " + std::to_string(hidden) +
         "\nheads: " + std::to_string(heads) + "\nkv_heads: " + std::to_string(kv_heads) +
         "\nhead_dim: 128\nsequence: 4096\nvocabulary: " + std::to_string(vocabulary) +
         "\nactivation: swiglu\nnorm: rmsnorm\npositions: rotary\ntied_embeddings: false\n"
         "biases: false\n";
}

TEST_CASE("models with experts have their published parameters, in all and active", "[model]") {
  struct Row {
    std::string name, text;
    double total, active;  ///< billions
    std::int64_t exact;    ///< of the released checkpoint, less what is said
  };
  auto const experts = [](std::string const& keys) { return "experts: {" + keys + "}\n"; };
  // Counts of the released checkpoints' tensors (safetensors indices; of Qwen2 by hand: attention,
  // its biases, routed and shared experts, router, gate and norms of a layer), and a hand count of
  // those that a token uses, in billions.
  std::vector<Row> const rows{
      {"Mixtral-8x7B",
       zoo(32, 4096, 32, 8, 32000) + experts("count: 8, per_token: 2, ffn_hidden: 14336"), 46.703,
       12.880, 46'702'792'704},
      {"Mixtral-8x22B",
       zoo(56, 6144, 48, 8, 32768) + experts("count: 8, per_token: 2, ffn_hidden: 16384"), 140.630,
       39.16, 140'630'071'296},
      // Without the norms of queries and keys: 48 x 2 x 128.
      {"Qwen3-30B-A3B",
       zoo(48, 2048, 32, 4, 151936) + experts("count: 128, per_token: 8, ffn_hidden: 768"), 30.532,
       3.353, 30'532'122'624 - 12'288},
      // Without those norms: 94 x 2 x 128.
      {"Qwen3-235B-A22B",
       zoo(94, 4096, 64, 4, 151936) + experts("count: 128, per_token: 8, ffn_hidden: 1536"),
       235.094, 22.191, 235'093'634'560 - 24'064},
      {"Qwen2-57B-A14B",
       zoo(28, 3584, 28, 4, 151936) + "qkv_bias: true\n" +
           experts("count: 64, per_token: 8, ffn_hidden: 2560, shared_ffn_hidden: 20480, "
                   "shared_gate: true"),
       57.409, 14.249,
       std::int64_t{28} * (29'360'128 + 4'608 + 1'761'607'680 + 220'200'960 + 229'376 + 3 * 3'584) +
           std::int64_t{2} * 544'538'624 + 3'584},
      // Without the norms of whole queries and keys: 16 x 2 x 2048.
      {"OLMoE-1B-7B",
       zoo(16, 2048, 16, 16, 50304) + experts("count: 64, per_token: 8, ffn_hidden: 1024"), 6.919,
       1.282, 6'919'161'856 - 65'536},
  };
  for (Row const& row : rows) {
    CAPTURE(row.name);
    Diagnostics diagnostics;
    auto const root = parse_yaml(row.text, "m.yaml", diagnostics);
    ModelConfig const model = read_model_config(ConfigNode{*root, "", diagnostics});
    diagnostics.throw_if_any();
    CHECK(parameter_count(model) == row.exact);
    CHECK(static_cast<double>(parameter_count(model)) / 1e9 == Approx(row.total).epsilon(0.0002));
    CHECK(static_cast<double>(active_parameter_count(model)) / 1e9 ==
          Approx(row.active).epsilon(0.0002));
  }
}

TEST_CASE("experts with biases have one for each product's output", "[model]") {
  // gpt-oss: E of the router, and 2 f + h of each expert.
  std::string const with = "count: 8, per_token: 2, ffn_hidden: 96, biases: ";
  std::int64_t const without =
      parameter_count(read("activation: swiglu\nexperts: {" + with + "false}"));
  REQUIRE(parameter_count(read("activation: swiglu\nexperts: {" + with + "true}")) ==
          without + 6 * (8 + 8 * (2 * 96 + 64)));
}

TEST_CASE("a rank holds its share of the experts, all of the router, and 1/t of shared experts",
          "[model]") {
  BlockShape shape{.model = read("activation: swiglu\nbiases: false\nexperts: {" + three +
                                 ", shared_ffn_hidden: 32}"),
                   .tensor = 2,
                   .sequence_parallel = true,
                   .expert = 4,
                   .expert_tensor = 2};
  BlockProgram const layer = declare_layer(shape);
  auto const held = [&](Name const& name) {
    for (Parameter const& parameter : layer.parameters) {
      Tensor const& weight = layer.tensor(parameter.weight);
      if (weight.name == name) return weight.shape;
    }
    return Shape{};
  };
  REQUIRE(held({"router", "weight"}) == Shape{8, 64});
  REQUIRE(held({"experts.up", "weight"}) == Shape{2 * 2 * 48, 64});
  REQUIRE(held({"experts.down", "weight"}) == Shape{2 * 64, 48});
  REQUIRE(held({"shared_experts.up", "weight"}) == Shape{2 * 16, 64});
  REQUIRE(held({"shared_experts.down", "weight"}) == Shape{64, 16});
}

}  // namespace
}  // namespace stagecraft::experts_config_test
