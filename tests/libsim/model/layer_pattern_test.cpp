#include <catch2/catch.hpp>
#include <string>

#include "libsim/config/yaml_text.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/modules/blocks.hpp"

namespace stagecraft::layer_pattern_test {
namespace {

/// h = 64, a = 8, f = 256, gelu, dropout 0.1, unless `text` says otherwise.
ModelConfig read(std::string const& text) {
  Diagnostics diagnostics;
  auto const root = parse_yaml("hidden: 64\nheads: 8\nsequence: 32\nvocabulary: 100\n" + text,
                               "m.yaml", diagnostics);
  diagnostics.throw_if_any();
  ModelConfig model = read_model_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return model;
}

TEST_CASE("a pattern of layers like the model's own is its number of layers written at length",
          "[model]") {
  ModelConfig const model = read("layers: 6");
  REQUIRE(read("pattern: [{count: 6}]") == model);
  REQUIRE(read("pattern: [{count: 2}, {kind: {ffn_hidden: 256}, count: 4}]") == model);
  REQUIRE(read("pattern: [{kind: {dropout: 0.1}}, {count: 2}]\nlayers: 6") == model);
}

TEST_CASE("a pattern gives each layer its kind, and begins again where layers are left",
          "[model]") {
  ModelConfig const model =
      read("layers: 6\npattern: [{kind: {ffn_hidden: 512}}, {kind: {activation: relu}, count: 2}]");
  for (std::int64_t const first : {0, 3}) {
    REQUIRE(layer_kind(model, first).ffn_hidden == 512);
    REQUIRE(layer_kind(model, first).activation == Activation::gelu);
    REQUIRE(layer_kind(model, first + 1).ffn_hidden == 256);
    REQUIRE(layer_kind(model, first + 1).activation == Activation::relu);
    REQUIRE(layer_kind(model, first + 2) == layer_kind(model, first + 1));
  }
  REQUIRE(layer_runs(model).at(0).count == 2);
  REQUIRE(layer_runs(model).at(1).count == 4);
  REQUIRE(read("pattern: [{count: 3}, {kind: {norm: rmsnorm}, count: 2}]").layers == 5);
}

TEST_CASE("a model with a pattern is written as it is read", "[model]") {
  for (std::string const rest :
       {"pattern: [{kind: {ffn_hidden: 512}}, {count: 2}]",
        "layers: 8\npattern: [{kind: {norm_epsilon: 0.5, biases: false, qkv_bias: true}}, {}]",
        "dropout: 0.2\nattention_dropout: 0.1\npattern: [{kind: {dropout: 0}}, {}]",
        "attention_dropout: 0.1\npattern: [{kind: {dropout: 0}}, {kind: {attention: flash}}]",
        "dropout: 0\npattern: [{kind: {dropout: 0.3}}, {kind: {dropout: 0.3, "
        "attention_dropout: 0}}]"}) {
    CAPTURE(rest);
    ModelConfig const model = read(rest);
    REQUIRE(model.pattern.size() == 2);
    Diagnostics diagnostics;
    auto const root = parse_yaml(yaml_text(to_json(model)), "again.yaml", diagnostics);
    REQUIRE(read_model_config(ConfigNode{*root, "", diagnostics}) == model);
    REQUIRE(diagnostics.problems().empty());
    REQUIRE(to_json(read_model_config(ConfigNode{*root, "", diagnostics})) == to_json(model));
  }
}

TEST_CASE("a kind has the keys in which layers may differ, and no other", "[model]") {
  auto const problem = [](std::string const& text) -> std::string {
    try {
      read(text);
    } catch (ConfigError const& error) {
      return error.what();
    }
    return "";
  };
  REQUIRE_THAT(problem("pattern: [{kind: {hidden: 32}}]"),
               Catch::Contains("m.yaml:5:19: pattern[0].kind.hidden: found an unknown key"));
  REQUIRE_THAT(problem("pattern: [{kinds: {}}]"), Catch::Contains("did you mean 'kind'?"));
  REQUIRE_THAT(problem("pattern: 3"),
               Catch::Contains("accepted: a list of maps with the keys kind and count"));
  REQUIRE_THAT(
      problem("layers: 7\npattern: [{count: 2}, {kind: {norm: rmsnorm}}]"),
      Catch::Contains("found '7'; accepted: a multiple of the layers of model.pattern (3)"));
}

TEST_CASE("parameters and FLOPs of a model are the sums over its layers", "[model]") {
  // Narayanan et al. 2021: 4h^2 + 8h of attention and norms, 2hf + f + h of the MLP; 4shf of its
  // FLOPs forward, three times that with backward.
  std::int64_t const h = 64, s = 32, wide = 512, narrow = 128;
  ModelConfig const none = read("layers: 1");
  std::int64_t const besides = parameter_count(none) - (12 * h * h + 13 * h);
  ModelConfig const mixed =
      read("layers: 6\npattern: [{kind: {ffn_hidden: 512}}, {kind: {ffn_hidden: 128}, count: 2}]");
  auto const layer = [&](std::int64_t f) { return 4 * h * h + 8 * h + 2 * h * f + f + h; };
  REQUIRE(parameter_count(mixed) == besides + 2 * layer(wide) + 4 * layer(narrow));
  std::int64_t const more = 12 * s * h * (2 * wide + 4 * narrow - 6 * 256);
  REQUIRE(model_flops_per_sequence(mixed) == model_flops_per_sequence(read("layers: 6")) + more);
}

}  // namespace
}  // namespace stagecraft::layer_pattern_test
