#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/import/huggingface/huggingface_import.hpp"
#include "libsim/modules/blocks.hpp"
#include "tests/libsim/import/import_notes.hpp"

// What a trial on 230 config files of public repositories stumbled over, each with the smallest
// input that has it.

namespace stagecraft::real_model_files_test {
namespace {

/// What strict import reads.
HuggingfaceImport parse(std::string const& text, std::vector<std::string> ignore = {}) {
  HuggingfaceOptions options;
  options.strictness = Strictness::strict;
  options.ignore = std::move(ignore);
  return parse_huggingface(text, "c.json", options);
}

std::string config(std::string const& type, std::string const& shape, std::string const& more) {
  return R"({"model_type": ")" + type + R"(", "torch_dtype": "bfloat16", )" + shape + more + "}";
}

TEST_CASE("keys that switch nothing on have no effect, whatever they are called", "[import]") {
  std::string const shape =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
         "intermediate_size": 256, "max_position_embeddings": 32)";
  HuggingfaceImport const llama =
      parse(config("llama", shape,
                   R"(, "is_llama_config": true, "rope_interleaved": false, "some_new_key": null,
                      "other_new_key": false, "transformers.js_config": {"dtype": "fp16"})"));
  auto const left_out =
      std::ranges::find(llama.left_out, std::string{"some_new_key"}, &Omission::name);
  REQUIRE(left_out != llama.left_out.end());
  REQUIRE(left_out->effect == OmittedEffect::none);
  REQUIRE_THROWS_WITH(parse(config("llama", shape, R"(, "other_new_key": true)")),
                      Catch::Contains("other_new_key: found an unknown key"));
  // transformers 5 writes these of every Gemma and GPT-BigCode.
  REQUIRE_NOTHROW(
      parse(config("gemma", shape, R"(, "head_dim": 16, "use_bidirectional_attention": null)")));
  std::string const code =
      R"("n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 128, "n_positions": 32,
         "multi_query": true, "num_key_value_heads": )";
  REQUIRE(parse(config("gpt_bigcode", code, "1")).model.kv_heads == 1);
  REQUIRE_THROWS_WITH(parse(config("gpt_bigcode", code, "4")),
                      Catch::Contains("num_key_value_heads: found '4'"));
  HuggingfaceImport const newer = parse(config(
      "llama", shape, R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 500000})"));
  REQUIRE(newer.model.rotary_base == 500'000);
  HuggingfaceImport const by_kind = parse(config(
      "llama", shape,
      R"(, "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 1000000},
                               "sliding_attention": {"rope_theta": 10000}})"));
  REQUIRE(by_kind.model.rotary_base == 1'000'000);
  REQUIRE(has_note(by_kind.notes, "rope_parameters.full_attention.rope_theta"));
}

TEST_CASE("rotary positions of part of a head and Llama 3.1's scaling are the model's",
          "[import]") {
  std::string const shape =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
         "num_key_value_heads": 2, "intermediate_size": 256, "max_position_embeddings": 32)";
  auto const read = [&](char const* family, std::string const& rest) {
    return parse(config(family, shape, ", " + rest));
  };
  // config.json of zai-org/GLM-4.5 has 0.5, modeling_gpt_neox.py without a key 0.25.
  REQUIRE(read("glm", R"("partial_rotary_factor": 0.5)").model.rotary_fraction == 0.5);
  REQUIRE(read("glm", R"("partial_rotary_factor": 1.0)").model.rotary_fraction == 1);
  REQUIRE(read("stablelm", R"("use_cache": true)").model.rotary_fraction == 0.25);
  REQUIRE(read("llama", R"("use_cache": true)").model.rotary_fraction == 1);
  // config.json of meta-llama/Llama-3.1-8B.
  std::string const scaling =
      R"("rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192, "rope_type": )";
  HuggingfaceImport const scaled = read("llama", scaling + "\"llama3\"}");
  REQUIRE(scaled.model.rotary_scaling == 8);
  REQUIRE_FALSE(has_note(scaled.notes, "the model that is trained"));
  // What a run file cannot hold is named.
  HuggingfaceImport const other = read("llama", scaling + R"("yarn"}, "initializer_range": 0.006)");
  REQUIRE(other.model.rotary_scaling == 1);
  REQUIRE(has_note(other.notes,
                   "the model that is trained also depends on rope_scaling (yarn), "
                   "initializer_range; neither"));
  REQUIRE_FALSE(has_note(read("llama", R"("initializer_range": 0.02)").notes, "is trained also"));
}

TEST_CASE("families that are Llama's layer have their published counts", "[import]") {
  // Model cards on Hugging Face: SmolLM3-3B 3,075,098,624; glm-4-9b-hf 9,399,951,360.
  REQUIRE(parameter_count(
              parse(config("smollm3",
                           R"("num_hidden_layers": 36, "hidden_size": 2048,
                              "num_attention_heads": 16, "num_key_value_heads": 4,
                              "intermediate_size": 11008, "vocab_size": 128256,
                              "max_position_embeddings": 65536, "tie_word_embeddings": true,)",
                           R"("no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0])"))
                  .model) == 3'075'098'624);
  REQUIRE(
      parameter_count(parse(config("glm",
                                   R"("num_hidden_layers": 40, "hidden_size": 4096,
                              "num_attention_heads": 32, "num_key_value_heads": 2,
                              "head_dim": 128, "intermediate_size": 13696, "vocab_size": 151552,
                              "max_position_embeddings": 8192, "attention_bias": true,)",
                                   R"("tie_word_embeddings": false, "partial_rotary_factor": 0.5)"))
                          .model) == 9'399'951'360);
  std::string const shape =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
         "num_key_value_heads": 2, "intermediate_size": 256, "max_position_embeddings": 32,
         "tie_word_embeddings": false)";
  // 2 (2 h^2 + 2 x 32 h + 3 h f + 2 h) + 2 x 128 h + h, and biases of h + 2 x 32 a layer where the
  // family has them.
  std::int64_t const llama = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 256 + 128) + 256 * 64 + 64;
  for (char const* const type :
       {"granite", "helium", "ernie4_5", "ministral", "ministral3", "cwm"}) {
    CAPTURE(type);
    REQUIRE(parameter_count(parse(config(type, shape, "")).model) == llama);
  }
  REQUIRE(parameter_count(parse(config("seed_oss", shape, "")).model) == llama + 2 * (64 + 64));
}

/// The layers of each kind: runs of layers as {window, rotary base, count}.
std::vector<std::array<std::int64_t, 3>> windows_of(ModelConfig const& model) {
  std::vector<std::array<std::int64_t, 3>> runs;
  for (LayerRun const& run : model.pattern) {
    runs.push_back({run.kind.window, static_cast<std::int64_t>(run.kind.rotary_base), run.count});
  }
  return runs;
}

TEST_CASE("StableLM, Nemotron, Arcee, Hunyuan and VaultGemma have their classes' counts",
          "[import]") {
  // The card of stablelm-3b-4e1t on Hugging Face.
  REQUIRE(parameter_count(
              parse(config("stablelm",
                           R"("num_hidden_layers": 32, "hidden_size": 2560,
                              "num_attention_heads": 32, "num_key_value_heads": 32,
                              "intermediate_size": 6912, "vocab_size": 50304,
                              "max_position_embeddings": 4096,)",
                           R"("tie_word_embeddings": false, "partial_rotary_factor": 0.25)"))
                  .model) == 2'795'443'200);
  // By hand: two layers of h 64, 4 heads, 2 of them of keys and values, f 256, and 128 words.
  std::string const shape =
      R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
         "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 256,
         "max_position_embeddings": 32, "tie_word_embeddings": false)";
  std::int64_t const attention = 2 * 64 * 64 + 2 * 32 * 64;
  std::int64_t const words = 2 * 128 * 64;
  auto const count = [&](char const* type, std::vector<std::string> const& ignore) {
    return parameter_count(parse(config(type, shape, ""), ignore).model);
  };
  REQUIRE(count("nemotron", {"hidden_act"}) ==
          2 * (attention + 2 * 64 * 256 + 4 * 64) + words + 2 * 64);
  REQUIRE(count("arcee", {"hidden_act"}) == 2 * (attention + 2 * 64 * 256 + 2 * 64) + words + 64);
  REQUIRE(count("hunyuan_v1_dense", {}) ==
          2 * (attention + 3 * 64 * 256 + 2 * 64 + 2 * 16) + words + 64);
  REQUIRE(count("vaultgemma", {}) == 2 * (attention + 3 * 64 * 256 + 2 * 64) + words + 64);
  REQUIRE_THROWS_WITH(parse(config("nemotron", shape, "")),
                      Catch::Contains("'nemotron', whose squared ReLUs are not modelled; accepted: "
                                      "--ignore hidden_act"));
}

TEST_CASE("norms of queries and keys, and behind attention and MLP, have their published counts",
          "[import]") {
  // Model cards on Hugging Face.
  HuggingfaceImport const qwen3 =
      parse(config("qwen3",
                   R"("num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
                      "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
                      "vocab_size": 151936, "max_position_embeddings": 40960,)",
                   R"("tie_word_embeddings": false, "use_sliding_window": false,
                      "sliding_window": 4096, "max_window_layers": 36)"));
  REQUIRE(parameter_count(qwen3.model) == 8'190'735'360);
  REQUIRE(qwen3.model.window == 0);
  HuggingfaceImport const olmo2 =
      parse(config("olmo2",
                   R"("num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40,
                      "num_key_value_heads": 40, "intermediate_size": 13824,
                      "vocab_size": 100352, "max_position_embeddings": 4096,)",
                   R"("tie_word_embeddings": false)"));
  REQUIRE(parameter_count(olmo2.model) == 13'716'198'400);
  HuggingfaceImport const glm4 =
      parse(config("glm4",
                   R"("num_hidden_layers": 40, "hidden_size": 4096, "num_attention_heads": 32,
                      "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 13696,
                      "vocab_size": 151552, "max_position_embeddings": 32768,)",
                   R"("attention_bias": true, "tie_word_embeddings": false)"));
  REQUIRE(parameter_count(glm4.model) == 9'400'279'040);
}

TEST_CASE("Gemma 2 and 3 have caps, windows in their layers, and their published counts",
          "[import]") {
  HuggingfaceImport const gemma2 =
      parse(config("gemma2",
                   R"("num_hidden_layers": 26, "hidden_size": 2304, "num_attention_heads": 8,
                      "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216,
                      "vocab_size": 256000, "max_position_embeddings": 8192,)",
                   R"("attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
                      "sliding_window": 4096, "query_pre_attn_scalar": 256)"));
  REQUIRE(parameter_count(gemma2.model) == 2'614'341'888);
  REQUIRE(gemma2.model.attention_softcap == 50);
  REQUIRE(gemma2.model.logit_softcap == 30);
  using Runs = std::vector<std::array<std::int64_t, 3>>;
  REQUIRE(windows_of(gemma2.model) == Runs{{4096, 10000, 1}, {0, 10000, 1}});
  HuggingfaceImport const gemma3 =
      parse(config("gemma3_text",
                   R"("num_hidden_layers": 26, "hidden_size": 1152, "num_attention_heads": 4,
                      "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 6912,
                      "vocab_size": 262144, "max_position_embeddings": 32768,)",
                   R"("sliding_window": 512, "sliding_window_pattern": 6,
                      "rope_theta": 1000000, "rope_local_base_freq": 10000)"));
  REQUIRE(parameter_count(gemma3.model) == 999'885'952);
  Runs const runs = windows_of(gemma3.model);
  REQUIRE(runs.size() == 9);
  REQUIRE(runs[0] == std::array<std::int64_t, 3>{512, 10000, 5});
  REQUIRE(runs[1] == std::array<std::int64_t, 3>{0, 1000000, 1});
  REQUIRE(runs[8] == std::array<std::int64_t, 3>{512, 10000, 2});
}

TEST_CASE("layer_types, where a file has it, says which layers have a window", "[import]") {
  HuggingfaceImport const olmo3 =
      parse(config("olmo3",
                   R"("num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
                      "intermediate_size": 256, "vocab_size": 128,
                      "max_position_embeddings": 64,)",
                   R"("sliding_window": 8, "tie_word_embeddings": false,
                      "layer_types": ["full_attention", "sliding_attention",
                                      "full_attention", "sliding_attention"])"));
  REQUIRE(windows_of(olmo3.model) ==
          std::vector<std::array<std::int64_t, 3>>{{0, 10000, 1}, {8, 10000, 1}});
}

TEST_CASE("every type that is refused is refused with a reason", "[import]") {
  for (char const* const type :
       {"ernie4_5_moe", "jetmoe", "granitemoehybrid", "longcat_flash", "olmo", "cohere",
        "persimmon", "internlm2", "qwen2_vl", "falcon_mamba", "modernbert", "something-new"}) {
    CAPTURE(type);
    REQUIRE_THROWS_WITH(parse(std::string{R"({"model_type": ")"} + type + "\"}"),
                        Catch::Contains(std::string{"'"} + type + "' ("));
  }
}

TEST_CASE("of a model of images the language model is read", "[import]") {
  HuggingfaceImport const import = parse(
      R"({"model_type": "mistral3", "vision_config": {}, "text_config": {"model_type": "mistral",
          "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
          "intermediate_size": 256, "max_position_embeddings": 32, "torch_dtype": "bfloat16"}})");
  REQUIRE(import.model.layers == 2);
  REQUIRE(has_note(import.notes, "text_config alone is read"));
}

}  // namespace
}  // namespace stagecraft::real_model_files_test
