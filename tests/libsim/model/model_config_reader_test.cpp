#include "libsim/model/model_config_reader.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace stagecraft::model_config_reader_test {
namespace {

/// Reads `more` below the keys that every model needs: h = 64, a = 8.
ModelConfig read(std::string const& more) {
  std::string const text =
      "layers: 4\nhidden: 64\nheads: 8\nsequence: 32\nvocabulary: 100\n" + more;
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "m.yaml", diagnostics);
  diagnostics.throw_if_any();
  ModelConfig model = read_model_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return model;
}

TEST_CASE("kv_heads, head_dim and ffn_hidden default to a, h / a and 4 h", "[model]") {
  ModelConfig const model = read("");
  REQUIRE(model.kv_heads == 8);
  REQUIRE(model.head_dim == 8);
  REQUIRE(model.ffn_hidden == 256);
}

TEST_CASE("of alternatives the first that DESIGN names is the default", "[model]") {
  ModelConfig const model = read("");
  REQUIRE(model.activation == Activation::gelu);
  REQUIRE(model.norm == Norm::layernorm);
  REQUIRE(model.positions == Positions::learned);
  REQUIRE(model.attention == Attention::unfused);
  REQUIRE(model.softmax_dropout == SoftmaxDropout::separate);
  REQUIRE(model.dropout_mask == DropoutMask::stored);
  REQUIRE(model.causal_mask == CausalMask::per_microbatch);
  REQUIRE(model.precision == Precision::fp16);
}

TEST_CASE("every key of a model is read", "[model]") {
  ModelConfig const model = read(
      "kv_heads: 2\nhead_dim: 10\nvocabulary_multiple: 1\nffn_hidden: 96\nactivation: "
      "swiglu\nnorm: rmsnorm\n"
      "positions: rotary\ntied_embeddings: false\ndropout: 0\nbiases: false\nattention: flash\n"
      "softmax_dropout: fused\ndropout_mask: regenerated\ncausal_mask: none\nprecision: bf16\n");
  ModelConfig expected;
  expected.layers = 4;
  expected.hidden = 64;
  expected.heads = 8;
  expected.kv_heads = 2;
  expected.head_dim = 10;
  expected.sequence = 32;
  expected.vocabulary = 100;
  expected.vocabulary_multiple = 1;
  expected.ffn_hidden = 96;
  expected.activation = Activation::swiglu;
  expected.norm = Norm::rmsnorm;
  expected.positions = Positions::rotary;
  expected.tied_embeddings = false;
  expected.dropout = 0;
  expected.biases = false;
  expected.attention = Attention::flash;
  expected.softmax_dropout = SoftmaxDropout::fused;
  expected.dropout_mask = DropoutMask::regenerated;
  expected.causal_mask = CausalMask::none;
  expected.precision = Precision::bf16;
  REQUIRE(model == expected);
}

TEST_CASE("what a model must have is reported all at once", "[model]") {
  Diagnostics diagnostics;
  auto const root = parse_yaml("norm: batchnorm\n", "m.yaml", diagnostics);
  read_model_config(ConfigNode{*root, "model", diagnostics});
  REQUIRE_THROWS_WITH(
      diagnostics.throw_if_any(),
      "m.yaml:1:1: model.layers: missing; accepted: a whole number from 1 to 100000\n"
      "m.yaml:1:1: model.hidden: missing; accepted: a whole number from 1 to 16777216\n"
      "m.yaml:1:1: model.heads: missing; accepted: a whole number from 1 to 1048576\n"
      "m.yaml:1:1: model.sequence: missing; accepted: a whole number from 1 to 16777216\n"
      "m.yaml:1:1: model.vocabulary: missing; accepted: a whole number from 1 to 2147483648\n"
      "m.yaml:1:7: model.norm: found 'batchnorm'; accepted: layernorm, rmsnorm");
}

TEST_CASE("heads are a multiple of kv_heads", "[model]") {
  REQUIRE_THROWS_WITH(read("kv_heads: 3\n"),
                      "m.yaml:6:11: kv_heads: found '3'; accepted: a divisor of heads (8)");
}

TEST_CASE("heads divide hidden unless head_dim is given", "[model]") {
  REQUIRE_NOTHROW(read("head_dim: 7\n"));
  Diagnostics diagnostics;
  auto const root = parse_yaml("layers: 1\nhidden: 10\nheads: 3\nsequence: 1\nvocabulary: 1\n",
                               "m.yaml", diagnostics);
  read_model_config(ConfigNode{*root, "", diagnostics});
  REQUIRE_THROWS_WITH(
      diagnostics.throw_if_any(),
      "m.yaml:3:8: heads: found '3'; accepted: a divisor of hidden (10), or head_dim given");
}

TEST_CASE("rotary positions need an even head_dim", "[model]") {
  REQUIRE_THROWS_WITH(
      read("head_dim: 7\npositions: rotary\n"),
      "m.yaml:7:12: positions: found 'rotary'; accepted: learned, or an even head_dim (7)");
}

TEST_CASE("a dropout rate is at least 0 and below 1", "[model]") {
  REQUIRE_THROWS_WITH(read("dropout: 1\n"),
                      "m.yaml:6:10: dropout: found '1'; accepted: a number from 0 to below 1");
}

TEST_CASE("keys that follow another key are read where they differ from it", "[model]") {
  ModelConfig const model = read("position_rows: 34\nattention_dropout: 0\nresidual: parallel\n");
  REQUIRE(position_rows(model) == 34);
  REQUIRE(attention_dropout(model) == 0);
  REQUIRE(model.residual == Residual::parallel);
  REQUIRE(read("position_rows: 32\nattention_dropout: 0.1\n") == read(""));
}

TEST_CASE(
    "a table of positions has at least one row per token, and only learned positions have one",
    "[model]") {
  REQUIRE_THROWS_WITH(read("position_rows: 31\n"),
                      "m.yaml:6:16: position_rows: found '31'; accepted: at least sequence (32)");
  REQUIRE_THROWS_WITH(read("positions: rotary\nposition_rows: 64\n"),
                      "m.yaml:7:1: position_rows: found '64'; accepted: this key only with "
                      "positions learned");
}

TEST_CASE("a QKV bias beside all biases has no effect", "[model]") {
  REQUIRE(read("qkv_bias: true\n") == read(""));
  REQUIRE(read("biases: false\nqkv_bias: true\n").qkv_bias);
}

TEST_CASE("sinks want flash attention", "[model]") {
  ModelConfig const model = read("attention: flash\nsinks: true\n");
  REQUIRE(model.sinks);
  REQUIRE(to_json(model).at("sinks") == true);
  REQUIRE_THROWS_WITH(read("sinks: true\n"),
                      "m.yaml:6:8: sinks: found 'true'; accepted: false, or model.attention flash");
}

TEST_CASE("norms and caps are read and written back", "[model]") {
  ModelConfig const model =
      read("norms: both\nqk_norm: head\nattention_softcap: 50\nlogit_softcap: 30.5\n");
  REQUIRE(model.norms == NormPlaces::both);
  REQUIRE(model.qk_norm == QkNorm::head);
  REQUIRE(model.attention_softcap == 50);
  REQUIRE(model.logit_softcap == 30.5);
  REQUIRE(read("attention_softcap: off\nlogit_softcap: off\n") == read(""));
  REQUIRE(to_json(model).at("logit_softcap") == 30.5);
  REQUIRE(to_json(read("")).at("attention_softcap") == "off");
  REQUIRE_THROWS_WITH(read("logit_softcap: 0\n"),
                      "m.yaml:6:16: logit_softcap: found '0'; accepted: a number from 0.001 to "
                      "below 1e+09");
  REQUIRE_THROWS_WITH(read("norms: post\nresidual: parallel\n"),
                      "m.yaml:6:8: norms: found 'post'; accepted: pre, as model.residual is "
                      "parallel");
}

TEST_CASE("a window is of all layers, or of those that full does not name", "[model]") {
  ModelConfig const all = read("window: {size: 7}\n");
  REQUIRE(all.window == 7);
  REQUIRE(all.pattern.empty());
  ModelConfig const some = read("window: {size: 7, period: 2, full: [1]}\n");
  REQUIRE(layer_kind(some, 0).window == 7);
  REQUIRE(layer_kind(some, 1).window == 0);
  REQUIRE(layer_kind(some, 2).window == 7);
  REQUIRE(pattern_layers(some) == 2);
  // A period that does not divide the layers is counted from the first.
  ModelConfig const cut = read("window: {size: 7, period: 3, full: [2]}\n");
  REQUIRE(layer_kind(cut, 2).window == 0);
  REQUIRE(layer_kind(cut, 3).window == 7);
  // With a pattern of other keys, both hold.
  ModelConfig const both = read(
      "window: {size: 7, period: 2, full: [1]}\n"
      "pattern: [{kind: {ffn_hidden: 8}, count: 1}, {kind: {ffn_hidden: 16}, count: 3}]\n");
  REQUIRE(layer_kind(both, 0).ffn_hidden == 8);
  REQUIRE(layer_kind(both, 0).window == 7);
  REQUIRE(layer_kind(both, 3).ffn_hidden == 16);
  REQUIRE(layer_kind(both, 3).window == 0);
  REQUIRE_THROWS_WITH(read("window: {size: 7, period: 2, full: [2]}\n"),
                      "m.yaml:6:37: window.full[0]: found '2'; accepted: a whole number from 0 to "
                      "1");
  REQUIRE_THROWS_WITH(read("window: 7\n"),
                      "m.yaml:6:9: window: found '7'; accepted: off, or a map with the keys size, "
                      "period and full");
  REQUIRE_THROWS_WITH(read("pattern: [{kind: {window: {size: 7, period: 2}}}]\n"),
                      Catch::Contains("found '2'; accepted: this key only in model.window"));
}

TEST_CASE("latents set the size of heads, and go with rotary positions and no biases", "[model]") {
  std::string const latents =
      "latent_attention: {query_rank: 12, key_rank: 10, nope_dim: 6, rope_dim: 4, value_dim: 7}\n";
  ModelConfig const model = read(latents + "positions: rotary\nbiases: false\n");
  REQUIRE(model.latent_attention == LatentAttention{12, 10, 6, 4, 7});
  REQUIRE(model.head_dim == 10);
  REQUIRE(model.kv_heads == 8);
  REQUIRE(read("latent_attention: off\n") == read(""));
  REQUIRE_THROWS_WITH(read(latents + "biases: false\n"),
                      "m.yaml:1:1: positions: found 'learned' (the default); accepted: rotary, as "
                      "model.latent_attention is given");
  REQUIRE_THROWS_WITH(read(latents + "positions: rotary\n"),
                      "m.yaml:1:1: biases: found 'true' (the default); accepted: false, as "
                      "model.latent_attention is given");
  REQUIRE_THROWS_WITH(read(latents + "positions: rotary\nbiases: false\nkv_heads: 2\n"),
                      "m.yaml:9:11: kv_heads: found '2'; accepted: model.heads (8), as "
                      "model.latent_attention is given");
  REQUIRE_THROWS_WITH(read(latents + "positions: rotary\nbiases: false\nhead_dim: 8\n"),
                      "m.yaml:9:11: head_dim: found '8'; accepted: 10 (nope_dim + rope_dim), as "
                      "model.latent_attention is given");
  REQUIRE_THROWS_WITH(read("latent_attention: {key_rank: 3}\n"),
                      Catch::Contains("latent_attention.nope_dim: missing"));
}

}  // namespace
}  // namespace stagecraft::model_config_reader_test
