#include <catch2/catch.hpp>
#include <string>

#include "libsim/import/huggingface/huggingface_import.hpp"
#include "libsim/modules/blocks.hpp"
#include "tests/libsim/import/import_fixtures.hpp"

// Counts, in all and active, of published checkpoints (safetensors indices; counted from
// config.json by the formula of each class, to the thousandth of a billion, in Megatron-Core's
// terms).

namespace stagecraft::huggingface_experts_test {
namespace {

ModelConfig parse(std::string const& type, std::string const& keys) {
  HuggingfaceOptions options;
  options.sequence = 4096;
  return parse_huggingface(R"({"model_type": ")" + type + R"(", "torch_dtype": "bfloat16",
                              "tie_word_embeddings": false, )" +
                               keys + "}",
                           "c.json", options)
      .model;
}

std::string const deepseek_v3 =
    R"("num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
       "num_key_value_heads": 128, "intermediate_size": 18432, "vocab_size": 129280,
       "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
       "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
       "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
       "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
       "norm_topk_prob": true, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 1)";

TEST_CASE("Mixtral's file has its published counts, and routes over the chosen two", "[import]") {
  HuggingfaceImport const import =
      parse_huggingface(text_of_file(config_file("mixtral-8x7b")), "c.json", {});
  REQUIRE(parameter_count(import.model) == 46'702'792'704);
  // Six of eight experts less: 32 x 6 x 3 x 4096 x 14336.
  REQUIRE(active_parameter_count(import.model) == 46'702'792'704 - 33'822'867'456);
  REQUIRE(import.model.experts->router.order == RouterOrder::after);
}

TEST_CASE("Qwen2 and Qwen3 with experts have their published counts", "[import]") {
  ModelConfig const qwen2 =
      parse("qwen2_moe",
            R"("num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
         "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 151936,
         "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 2560,
         "shared_expert_intermediate_size": 20480, "decoder_sparse_step": 1,
         "norm_topk_prob": false)");
  REQUIRE(static_cast<double>(parameter_count(qwen2)) / 1e9 == Approx(57.409).margin(0.001));
  REQUIRE(static_cast<double>(active_parameter_count(qwen2)) / 1e9 == Approx(14.249).margin(0.001));
  ModelConfig const qwen3 =
      parse("qwen3_moe",
            R"("num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32,
         "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
         "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8,
         "moe_intermediate_size": 768, "decoder_sparse_step": 1, "norm_topk_prob": true,
         "mlp_only_layers": [])");
  REQUIRE(parameter_count(qwen3) == 30'532'122'624);
  REQUIRE(static_cast<double>(active_parameter_count(qwen3)) / 1e9 == Approx(3.353).margin(0.001));
  REQUIRE(qwen3.experts->router.order == RouterOrder::before);
}

TEST_CASE("OLMoE has its published counts, and norms over all heads", "[import]") {
  ModelConfig const olmoe =
      parse("olmoe",
            R"("num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16,
         "num_key_value_heads": 16, "intermediate_size": 1024, "vocab_size": 50304,
         "num_experts": 64, "num_experts_per_tok": 8, "norm_topk_prob": false)");
  REQUIRE(static_cast<double>(parameter_count(olmoe)) / 1e9 == Approx(6.919).margin(0.001));
  REQUIRE(static_cast<double>(active_parameter_count(olmoe)) / 1e9 == Approx(1.282).margin(0.001));
  REQUIRE(olmoe.qk_norm == QkNorm::full);
}

TEST_CASE("DeepSeek V3 and V2 have latents, dense layers first, and their published counts",
          "[import]") {
  ModelConfig const v3 = parse("deepseek_v3", deepseek_v3);
  REQUIRE(static_cast<double>(parameter_count(v3)) / 1e9 == Approx(671.026).margin(0.001));
  REQUIRE(static_cast<double>(active_parameter_count(v3)) / 1e9 == Approx(37.552).margin(0.001));
  REQUIRE(v3.latent_attention == LatentAttention{1536, 512, 128, 64, 128});
  REQUIRE(v3.experts->first_dense == 3);
  REQUIRE(v3.experts->router.bias);
  REQUIRE(v3.experts->router.score == RouterScore::sigmoid);
  REQUIRE(v3.experts->router.groups == 8);
  REQUIRE(v3.experts->router.scaling == 2.5);
  ModelConfig const lite =
      parse("deepseek_v2",
            R"("num_hidden_layers": 27, "hidden_size": 2048, "num_attention_heads": 16,
         "num_key_value_heads": 16, "intermediate_size": 10944, "vocab_size": 102400,
         "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
         "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408,
         "first_k_dense_replace": 1, "topk_method": "greedy", "n_group": 1, "topk_group": 1,
         "norm_topk_prob": false, "routed_scaling_factor": 1.0, "scoring_func": "softmax")");
  REQUIRE(parameter_count(lite) == 15'706'484'224);
  REQUIRE(static_cast<double>(active_parameter_count(lite)) / 1e9 == Approx(2.661).margin(0.001));
}

TEST_CASE("DeepSeek V3 has its module of multi-token prediction if asked for", "[import]") {
  std::string const text = R"({"model_type": "deepseek_v3", "torch_dtype": "bfloat16",
                               "tie_word_embeddings": false, )" +
                           deepseek_v3 + "}";
  HuggingfaceImport const without = parse_huggingface(text, "c.json", {.sequence = 4096});
  REQUIRE(without.model.predicted_tokens == 0);
  HuggingfaceImport const with =
      parse_huggingface(text, "c.json", {.sequence = 4096, .predicted_tokens = true});
  REQUIRE(with.model.predicted_tokens == 1);
  // The checkpoint's tensors model.layers.61.*, without copies of embedding and head.
  std::int64_t const attention = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) +
                                 512 * 128 * 256 + 128 * 128 * 7168 + 1536 + 512 + 2 * 7168;
  std::int64_t const expert = 3 * 7168 * 2048;
  std::int64_t const outside =
      2 * 7168 * 7168 + 3 * 7168;  // eh_proj, enorm, hnorm, shared_head.norm
  std::int64_t const module = attention + 257 * expert + 256 * 7168 + outside;
  REQUIRE(parameter_count(with.model) == parameter_count(without.model) + module);
  REQUIRE(static_cast<double>(module) / 1e9 == Approx(11.61).margin(0.01));
  REQUIRE(active_parameter_count(with.model) ==
          active_parameter_count(without.model) + module - 248 * expert);
  REQUIRE_THROWS_WITH(parse_huggingface(R"({"model_type": "llama"})", "c.json",
                                        {.sequence = 8, .predicted_tokens = true}),
                      Catch::Contains("num_nextn_predict_layers"));
}

/// config.json of ibm-granite/granite-3.0-1b-a400m-base, whose safetensors have 2,669,256,704 bytes
/// in bf16.
TEST_CASE("Granite with experts has its published count", "[import]") {
  HuggingfaceImport const import = parse_huggingface(
      R"({"model_type": "granitemoe", "torch_dtype": "bfloat16", "tie_word_embeddings": true,
          "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
          "num_key_value_heads": 8, "intermediate_size": 512, "vocab_size": 49155,
          "num_local_experts": 32, "num_experts_per_tok": 8, "router_aux_loss_coef": 0.0,
          "attention_bias": false, "embedding_multiplier": 12.0, "logits_scaling": 6.0,
          "attention_multiplier": 0.015625, "residual_multiplier": 0.22, "rms_norm_eps": 1e-06,
          "rope_theta": 10000.0, "hidden_act": "silu", "max_position_embeddings": 4096})",
      "c.json", {});
  REQUIRE(parameter_count(import.model) == 1'334'628'352);
  REQUIRE(active_parameter_count(import.model) == 1'334'628'352 - 24 * 24 * 3 * 1024 * 512);
}

TEST_CASE("GPT-OSS has sinks, biases, windows in every other layer, and its published counts",
          "[import]") {
  auto const oss = [](std::string const& vocabulary) {
    return parse("gpt_oss",
                 R"("num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
         "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
         "num_local_experts": 32, "num_experts_per_tok": 4, "experts_per_token": 4,
         "initial_context_length": 4096, "sliding_window": 128, "swiglu_limit": 7.0,
         "attention_bias": true, "rope_theta": 150000, "vocab_size": )" +
                     vocabulary);
  };
  ModelConfig const model = oss("201088");
  REQUIRE(parameter_count(model) == 20'914'757'184);
  // Model card: 3.61 billion active, without the embedding.
  REQUIRE(static_cast<double>(active_parameter_count(model) - 201'088 * 2880) / 1e9 ==
          Approx(3.608).margin(0.001));
  // The log of MLPerf Training's run with another vocabulary, v6.0.
  REQUIRE(parameter_count(oss("128256")) == 20'495'244'864);
  REQUIRE(model.activation == Activation::swiglu_clamped);
  REQUIRE(model.sinks);
  REQUIRE(model.biases);
  REQUIRE(model.pattern.size() == 2);
  REQUIRE(layer_kind(model, 0).window == 128);
  REQUIRE(layer_kind(model, 1).window == 0);
  REQUIRE(layer_kind(model, 0).attention == Attention::flash);
  REQUIRE(layer_kind(model, 0).sinks);
}

TEST_CASE("kinds of a pattern have the attention that was asked for", "[import]") {
  ModelConfig const model =
      parse("gemma2",
            R"("num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
         "num_key_value_heads": 4, "head_dim": 16, "intermediate_size": 128, "vocab_size": 256,
         "sliding_window": 32)");
  REQUIRE(model.pattern.size() == 2);
  for (LayerRun const& run : model.pattern) REQUIRE(run.kind.attention == Attention::flash);
}

TEST_CASE("Llama 4 has experts in every layer or every second one, and its published counts",
          "[import]") {
  auto const llama4 = [](std::string const& experts, std::string const& step) {
    return parse("llama4_text",
                 R"("num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
                    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
                    "intermediate_size_mlp": 16384, "vocab_size": 202048,
                    "num_experts_per_tok": 1, "attention_chunk_size": 8192,
                    "num_local_experts": )" +
                     experts + R"(, "interleave_moe_layer_step": )" + step);
  };
  ModelConfig const scout = llama4("16", "1");
  REQUIRE(static_cast<double>(parameter_count(scout)) / 1e9 == Approx(107.77).margin(0.01));
  REQUIRE(static_cast<double>(active_parameter_count(scout)) / 1e9 == Approx(17.17).margin(0.01));
  ModelConfig const maverick = llama4("128", "2");
  REQUIRE(static_cast<double>(parameter_count(maverick)) / 1e9 == Approx(400.71).margin(0.01));
  REQUIRE(static_cast<double>(active_parameter_count(maverick)) / 1e9 ==
          Approx(17.19).margin(0.01));
}

TEST_CASE("GLM 4.5, MiniMax M2, dots.llm1 and Kimi K2 have the parameters of a hand count",
          "[import]") {
  // Three layers of h 64, 4 heads of 16, 2 of them of keys and values, f 256 and 128 words; 8
  // experts of 32. transformers: modeling_glm4_moe.py, modeling_minimax_m2.py, modeling_dots1.py.
  std::string const shape =
      R"("num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
         "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 32,
         "num_experts_per_tok": 2, "torch_dtype": "bfloat16", )";
  std::string const shared =
      R"("intermediate_size": 256, "moe_intermediate_size": 32, "n_routed_experts": 8,
         "n_shared_experts": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5)";
  auto const read = [&](std::string const& type, std::string const& more) {
    return parse_huggingface(R"({"model_type": ")" + type + "\", " + shape + more + "}", "c.json",
                             {.strictness = Strictness::strict})
        .model;
  };
  std::int64_t const attention = 2 * 64 * 64 + 2 * 64 * 32;
  std::int64_t const expert = 3 * 64 * 32;
  std::int64_t const router = 8 * 64;
  std::int64_t const words = 2 * 128 * 64 + 64;
  std::int64_t const of_shared =
      3 * (attention + 2 * 64) + 3 * 64 * 256 + 2 * (9 * expert + router);
  ModelConfig const glm =
      read("glm4_moe", shared + R"(, "use_qk_norm": true, "attention_bias": true)");
  REQUIRE(parameter_count(glm) == words + of_shared + 3 * (64 + 2 * 32) + 3 * 2 * 16);
  REQUIRE(glm.experts->router.score == RouterScore::sigmoid);
  REQUIRE(glm.experts->router.scaling == 2.5);
  REQUIRE(parameter_count(read("dots1", shared)) == words + of_shared + 3 * 2 * 16);
  // Norms over all heads: 64 of queries, 32 of keys.
  REQUIRE(parameter_count(read("minimax_m2", R"("intermediate_size": 32, "num_local_experts": 8,
              "use_qk_norm": true, "use_mtp": true, "num_mtp_modules": 3,
              "mlp_intermediate_size": 128, "shared_moe_mode": "sigmoid", "layernorm_mlp_beta": 1.0)")) ==
          words + 3 * (attention + 2 * 64 + 64 + 32 + 8 * expert + router));
  std::string const latent =
      shared + R"(, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
                  "qk_rope_head_dim": 8, "v_head_dim": 16)";
  REQUIRE(read("kimi_k2", latent) == read("deepseek_v3", latent));
}

}  // namespace
}  // namespace stagecraft::huggingface_experts_test
