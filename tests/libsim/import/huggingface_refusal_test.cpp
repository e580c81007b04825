#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "libsim/config/problem.hpp"
#include "libsim/import/huggingface/huggingface_import.hpp"
#include "tests/libsim/import/import_fixtures.hpp"

namespace stagecraft::huggingface_refusal_test {
namespace {

using Json = nlohmann::ordered_json;

/// A config.json of the fixtures with some keys replaced, or taken away by `nullptr` values.
std::string changed(std::string const& name, Json const& changes) {
  Json config = Json::parse(text_of_file(config_file(name)));
  for (auto const& [key, value] : changes.items()) {
    if (value == "REMOVE") {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  return config.dump(2);
}

/// What strict import says.
std::string refusal(std::string const& text, HuggingfaceOptions options = {}) {
  options.strictness = Strictness::strict;
  try {
    parse_huggingface(text, "c.json", options);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "accepted";
}

HuggingfaceOptions ignoring(std::string const& name) {
  HuggingfaceOptions options;
  options.ignore = {name};
  return options;
}

TEST_CASE("a key that is missing is named with what it must be", "[import]") {
  std::string const text = changed("llama-2-7b", {{"num_hidden_layers", "REMOVE"},
                                                  {"intermediate_size", "REMOVE"},
                                                  {"max_position_embeddings", "REMOVE"}});
  REQUIRE(refusal(text) ==
          "c.json:1:1: num_hidden_layers: missing; accepted: a whole number from 1 to 100000 "
          "(also under the name n_layer or num_layers)\n"
          "c.json:1:1: intermediate_size: missing; accepted: a whole number from 1 to "
          "67108864 (also under the name n_inner or ffn_dim or ffn_hidden_size)\n"
          "c.json:1:1: max_position_embeddings: missing; accepted: a whole number from 1 to "
          "16777216 (also under the name n_positions or n_ctx or max_sequence_length), or "
          "--sequence N");
}

TEST_CASE("values of a wrong kind or range are named with their place", "[import]") {
  std::string const text = changed(
      "llama-2-7b", {{"hidden_size", "4096"}, {"vocab_size", -1}, {"num_attention_heads", 32.5}});
  std::string const message = refusal(text);
  REQUIRE_THAT(message,
               Catch::Contains("c.json:8:18: hidden_size: found the text '4096'; accepted: "
                               "a whole number from 1 to 16777216"));
  REQUIRE_THAT(message, Catch::Contains("vocab_size: found '-1'"));
  REQUIRE_THAT(message, Catch::Contains("num_attention_heads: found '32.5'"));
}

TEST_CASE("numbers beyond any model are refused, not computed with", "[import]") {
  REQUIRE_THAT(refusal(changed("llama-2-7b", {{"hidden_size", 1LL << 40}})),
               Catch::Contains("hidden_size: found '1099511627776'"));
  REQUIRE_THAT(refusal("{\"model_type\": \"llama\", \"hidden_size\": 1e999}"),
               Catch::Contains("a number that is too large"));
}

TEST_CASE("heads that do not divide the hidden size are refused", "[import]") {
  REQUIRE(
      refusal(changed("llama-2-7b", {{"num_attention_heads", 33}, {"num_key_value_heads", 33}})) ==
      "c.json: heads: found '33'; accepted: a divisor of hidden (4096), or head_dim given");
}

TEST_CASE("a router that draws choices at random is refused with the reason", "[import]") {
  REQUIRE_THAT(
      refusal(changed("llama-2-7b", {{"model_type", "phimoe"}})),
      Catch::Contains("model_type: found the text 'phimoe' (its router draws choices at random"));
}

TEST_CASE("text that is no JSON object is refused at its place", "[import]") {
  REQUIRE(refusal("") == "c.json: found an empty file; accepted: a JSON object");
  REQUIRE(refusal(" \n") == "c.json: found an empty file; accepted: a JSON object");
  REQUIRE(refusal("{\n  \"a\": 1,\n  b\n}") ==
          "c.json:3:3: found a JSON syntax error; accepted: a JSON object");
  REQUIRE(refusal("{\"a\": 1") == "c.json:1:8: found a JSON syntax error; accepted: a JSON object");
  REQUIRE(refusal("[1]") == "c.json:1:1: found a list; accepted: a JSON object");
  REQUIRE_THAT(refusal("model_type: llama\n"), Catch::Contains("a JSON syntax error"));
}

TEST_CASE("files that cannot be read are refused by name", "[import]") {
  REQUIRE_THROWS_WITH(import_huggingface("no/such.json", {}),
                      Catch::StartsWith("no/such.json: found a file that cannot be opened (No such "
                                        "file or directory; looked for in ") &&
                          Catch::EndsWith("); accepted: a config.json"));
  REQUIRE_THROWS_WITH(import_huggingface(fixtures, {}),
                      Catch::Contains("found a folder; accepted: a config.json"));
}

TEST_CASE("mixtures of experts are refused by name", "[import]") {
  REQUIRE_THAT(refusal(R"({"model_type": "dbrx"})"),
               Catch::Contains("model_type: found the text 'dbrx' (a mixture of experts that this "
                               "import does not read); accepted: arcee, bloom, cwm, deepseek_v2"));
  // Three of four layers of Qwen3-Next are gated DeltaNets; granitemoehybrid has Mamba's.
  REQUIRE_THAT(refusal(R"({"model_type": "qwen3_next"})"), Catch::Contains("linear attention"));
  REQUIRE_THAT(refusal(R"({"model_type": "granitemoehybrid"})"), Catch::Contains("state-space"));
  REQUIRE_THAT(refusal(R"({"model_type": "new_moe"})"), Catch::Contains("a mixture of experts"));
  REQUIRE_THAT(refusal(changed("llama-2-7b", {{"num_local_experts", 8}})),
               Catch::Contains("num_local_experts: found '8'; accepted: no experts"));
}

TEST_CASE("families that are not read are refused, known ones with the reason", "[import]") {
  REQUIRE_THAT(refusal(R"({"model_type": "t5"})"),
               Catch::Contains("found the text 't5' (a model with an encoder"));
  REQUIRE_THAT(refusal(R"({"model_type": "olmo"})"), Catch::Contains("norms without parameters"));
  REQUIRE_THAT(refusal(R"({"model_type": "frobnicator"})"),
               Catch::Contains("c.json:1:16: model_type: found the text 'frobnicator' (no class of "
                               "transformers that this import knows); accepted: "));
  REQUIRE_THAT(refusal("{}"), Catch::Contains("model_type: missing; accepted: arcee, bloom"));
  REQUIRE_THAT(refusal(R"({"text_config": {}, "model_type": "llava"})"),
               Catch::Contains("text_config.model_type: missing; accepted: "));
}

TEST_CASE("unknown keys are refused with the nearest known one unless ignored", "[import]") {
  std::string const text = changed("llama-2-7b", {{"num_key_value_head", 8}});
  REQUIRE_THAT(refusal(text),
               Catch::Contains("num_key_value_head: found an unknown key; accepted: the keys that "
                               "transformers has for this family, or --ignore num_key_value_head; "
                               "did you mean 'num_key_value_heads'?"));
  REQUIRE(refusal(text, ignoring("num_key_value_head")) == "accepted");
  REQUIRE(refusal(changed("llama-2-7b", {{"_attn_implementation_autoset", true}})) == "accepted");
}

TEST_CASE("windows shorter than the sequence are read, and left out where that is asked for",
          "[import]") {
  std::string const text = text_of_file(config_file("mistral-7b-v0.1"));
  HuggingfaceImport import = parse_huggingface(text, "c.json", {});
  REQUIRE(import.model.sequence == 32768);
  REQUIRE(import.model.window == 4096);
  import = parse_huggingface(text, "c.json", ignoring("sliding_window"));
  REQUIRE(import.model.window == 0);
  REQUIRE_THAT(import.notes[1], Catch::Contains("ignored: sliding_window '4096': attention is"));
}

TEST_CASE("what a model cannot represent is refused unless ignored", "[import]") {
  struct Case {
    char const* file;
    Json changes;
    char const* key;
  };
  for (Case const& c : std::vector<Case>{
           {"llama-2-7b", {{"attention_bias", true}}, "attention_bias"},
           {"llama-2-7b", {{"mlp_bias", true}}, "mlp_bias"},
           {"llama-2-7b", {{"hidden_act", "relu2"}}, "hidden_act"},
           {"llama-2-7b", {{"torch_dtype", "float8_e4m3fn"}}, "torch_dtype"},
           {"llama-2-7b", {{"quantization_config", {{"bits", 4}}}}, "quantization_config"},
           {"gpt2", {{"embd_pdrop", 0.2}}, "embd_pdrop"},
           {"gpt2", {{"add_cross_attention", true}}, "add_cross_attention"},
           {"opt-1.3b", {{"word_embed_proj_dim", 512}}, "word_embed_proj_dim"},
           {"opt-1.3b", {{"do_layer_norm_before", false}}, "do_layer_norm_before"},
           {"gpt-neox-20b", {{"attention_bias", false}}, "attention_bias"},
           {"gemma-2b", {{"hidden_activation", "relu"}}, "hidden_activation"}}) {
    CAPTURE(c.file, c.key);
    std::string const text = changed(c.file, c.changes);
    REQUIRE_THAT(refusal(text), Catch::Contains(std::string{"--ignore "} + c.key));
    REQUIRE(refusal(text, ignoring(c.key)) == "accepted");
  }
}

TEST_CASE("a table of positions must hold the sequence", "[import]") {
  HuggingfaceOptions options;
  options.sequence = 2048;
  REQUIRE_THAT(refusal(text_of_file(config_file("gpt2")), options),
               Catch::Contains("max_position_embeddings: missing; accepted: at least") ||
                   Catch::Contains("at least the length that --sequence asks for (2048)"));
}

TEST_CASE("biases of attention and MLP together are represented", "[import]") {
  HuggingfaceImport const import = parse_huggingface(
      changed("llama-2-7b", {{"attention_bias", true}, {"mlp_bias", true}}), "c.json", {});
  REQUIRE(import.model.biases);
}

}  // namespace
}  // namespace stagecraft::huggingface_refusal_test
