#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "libsim/run/config_files.hpp"

namespace stagecraft::published_models_test {
namespace {

/// What is published of a model, as far as its training depends on it.
struct Facts {
  std::int64_t layers, hidden, heads, kv_heads, head_dim, ffn_hidden, vocabulary;
  Activation activation = Activation::swiglu;
  Norm norm = Norm::rmsnorm;
  double norm_epsilon = 1e-5;
  Positions positions = Positions::rotary;
  double rotary_base = 10000;
  bool is_tied = false;
  bool has_biases = false;
  double dropout = 0;
  NormPlaces norms = NormPlaces::pre;
  QkNorm qk_norm = QkNorm::none;
  double attention_softcap = 0;
  double logit_softcap = 0;
  std::int64_t window = 0;
  std::int64_t full_layers = 0;  ///< of all, those without the window
  double window_base = 0;        ///< rotary base of those within
  bool has_sinks = false;
  LatentAttention latents{};
  std::optional<ExpertsConfig> experts{};
};

/// Decoders of the GPT-2 kind: ffn 4h, GELU, layer norms, learned positions, tied, biases, dropout
/// 0.1 (Radford et al. 2019; config.json of openai-community/gpt2, and Megatron-LM's defaults).
Facts gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocabulary) {
  return {layers,
          hidden,
          heads,
          heads,
          hidden / heads,
          4 * hidden,
          vocabulary,
          Activation::gelu,
          Norm::layernorm,
          1e-5,
          Positions::learned,
          10000,
          true,
          true,
          0.1};
}

/// config.json of meta-llama on Hugging Face: rms_norm_eps 1e-05, hidden_act silu, no biases,
/// untied; rope_theta 10000 in Llama 2 and 500000 since Llama 3.
Facts llama(std::int64_t layers,
            std::int64_t hidden,
            std::int64_t heads,
            std::int64_t kv_heads,
            std::int64_t ffn_hidden,
            std::int64_t vocabulary,
            double rotary_base) {
  Facts facts{layers, hidden, heads, kv_heads, hidden / heads, ffn_hidden, vocabulary};
  facts.rotary_base = rotary_base;
  return facts;
}

/// Parmar et al. 2024, arXiv:2402.16819, and NVIDIA 2024, arXiv:2406.11704: rotary positions, no
/// biases, no dropout, untied, layer norms; the squared ReLU is approximated.
Facts nemotron(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  Facts facts{layers, hidden, heads, 8, hidden / heads, 4 * hidden, 256'000};
  facts.activation = Activation::relu;
  facts.norm = Norm::layernorm;
  return facts;
}

/// config.json of Qwen on Hugging Face: rms_norm_eps 1e-06, rope_theta 1000000, q_norm and k_norm
/// of a head in modeling_qwen3.py.
Facts qwen3(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t ffn_hidden) {
  Facts facts{layers, hidden, heads, 8, 128, ffn_hidden, 151'936};
  facts.norm_epsilon = 1e-6;
  facts.rotary_base = 1e6;
  facts.qk_norm = QkNorm::head;
  return facts;
}

struct Published {
  Facts facts;
  std::int64_t sequence;
  char const* source;
};

/// OLMo Team 2024, arXiv:2501.00656, section 3.2: norms after attention and MLP, and of queries and
/// keys.
Facts olmo2(Facts facts) {
  facts.norm_epsilon = 1e-6;
  facts.norms = NormPlaces::post;
  facts.qk_norm = QkNorm::full;
  return facts;
}

/// 8 experts as wide as the MLP that they replace, of which a token uses 2. The run files leave out
/// router_aux_loss_coef 0.02.
Facts mixtral(Facts facts) {
  facts.experts = ExpertsConfig{.count = 8, .per_token = 2, .ffn_hidden = facts.ffn_hidden};
  return facts;
}

/// Qwen3 with 128 experts, of which a token uses 8: norm_topk_prob true, router_aux_loss_coef
/// 0.001, num_key_value_heads 4.
Facts qwen3_moe(std::int64_t layers,
                std::int64_t hidden,
                std::int64_t heads,
                std::int64_t ffn_hidden,
                std::int64_t expert_ffn_hidden) {
  Facts facts = qwen3(layers, hidden, heads, ffn_hidden);
  facts.kv_heads = 4;
  ExpertsConfig experts{.count = 128, .per_token = 8, .ffn_hidden = expert_ffn_hidden};
  experts.router.order = RouterOrder::before;
  facts.experts = experts;
  return facts;
}

/// OpenAI 2025, arXiv:2508.10925: windows in every other layer, biases of all products, sinks.
Facts gpt_oss(std::int64_t layers, std::int64_t experts) {
  Facts facts{layers, 2880, 64, 8, 64, 2880, 201'088};
  facts.activation = Activation::swiglu_clamped;
  facts.rotary_base = 150'000;
  facts.has_biases = true;
  facts.has_sinks = true;
  facts.window = 128;
  facts.full_layers = layers / 2;
  facts.window_base = facts.rotary_base;
  facts.experts =
      ExpertsConfig{.count = experts, .per_token = 4, .ffn_hidden = 2880, .biases = true};
  return facts;
}

/// DeepSeek-AI 2024, arXiv:2412.19437, section 4.2, and config.json of deepseek-ai/DeepSeek-V3.
Facts deepseek_v3() {
  Facts facts{61, 7168, 128, 128, 192, 18432, 129'280};
  facts.norm_epsilon = 1e-6;
  facts.latents = {
      .query_rank = 1536, .key_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  ExpertsConfig experts{.count = 256,
                        .per_token = 8,
                        .ffn_hidden = 2048,
                        .shared_ffn_hidden = 2048,
                        .first_dense = 3};
  experts.router.score = RouterScore::sigmoid;
  experts.router.scaling = 2.5;
  experts.router.groups = 8;
  experts.router.groups_per_token = 4;
  experts.router.bias = true;
  facts.experts = experts;
  return facts;
}

/// Gemma Team 2024, arXiv:2408.00118, table 1, and 2025, arXiv:2503.19786, section 2: norms on both
/// sides, GeGLU, tied.
Facts gemma(Facts facts, std::int64_t window, std::int64_t full_layers) {
  facts.activation = Activation::geglu;
  facts.norm_epsilon = 1e-6;
  facts.norms = NormPlaces::both;
  facts.is_tied = true;
  facts.window = window;
  facts.full_layers = full_layers;
  facts.window_base = 1e4;
  return facts;
}

Facts gemma2(Facts facts, std::int64_t full_layers) {
  facts = gemma(facts, 4096, full_layers);
  facts.attention_softcap = 50;
  facts.logit_softcap = 30;
  return facts;
}

Facts gemma3(Facts facts, std::int64_t full_layers) {
  facts = gemma(facts, 1024, full_layers);
  facts.rotary_base = 1e6;
  facts.qk_norm = QkNorm::head;
  return facts;
}

constexpr char const* paper = "Korthikanti et al. 2022, arXiv:2205.05198, table 3 and section 6";
Facts const llama8 = llama(32, 4096, 32, 8, 14336, 128'256, 5e5);
Facts const llama70 = llama(80, 8192, 64, 8, 28672, 128'256, 5e5);
Facts const llama405 = llama(126, 16384, 128, 8, 53248, 128'256, 5e5);

std::map<std::string, Published> const published{
    {"gpt-22b", {gpt(48, 6144, 64, 51200), 2048, paper}},
    {"gpt3-175b", {gpt(96, 12288, 96, 51200), 2048, paper}},
    {"mtnlg-530b", {gpt(105, 20480, 128, 51200), 2048, paper}},
    {"gpt-1t", {gpt(128, 25600, 160, 51200), 2048, paper}},
    {"gpt2-small", {gpt(12, 768, 12, 50257), 1024, "config.json of openai-community/gpt2"}},
    {"gpt2-xl", {gpt(48, 1600, 25, 50257), 1024, "config.json of openai-community/gpt2-xl"}},
    {"llama2-7b",
     {llama(32, 4096, 32, 32, 11008, 32000, 1e4), 4096, "config.json of Llama-2-7b-hf"}},
    {"llama2-70b",
     {llama(80, 8192, 64, 8, 28672, 32000, 1e4), 4096, "config.json of Llama-2-70b-hf"}},
    {"llama3-8b", {llama8, 8192, "config.json of Meta-Llama-3-8B"}},
    {"llama3-70b", {llama70, 8192, "config.json of Meta-Llama-3-70B"}},
    {"llama3-405b", {llama405, 8192, "arXiv:2407.21783, table 3"}},
    {"llama3.1-8b", {llama8, 8192, "config.json of Llama-3.1-8B"}},
    {"llama3.1-70b", {llama70, 8192, "config.json of Llama-3.1-70B"}},
    {"llama3.1-405b", {llama405, 8192, "config.json of Llama-3.1-405B"}},
    {"llama3.1-8b-128k", {llama8, 131'072, "config.json of Llama-3.1-8B"}},
    {"llama3.1-70b-128k", {llama70, 131'072, "config.json of Llama-3.1-70B"}},
    {"llama3.1-405b-128k", {llama405, 131'072, "config.json of Llama-3.1-405B"}},
    {"mistral-7b",
     {llama(32, 4096, 32, 8, 14336, 32768, 1e6), 8192, "config.json of Mistral-7B-v0.3"}},
    {"mixtral-8x7b",
     {mixtral(llama(32, 4096, 32, 8, 14336, 32000, 1e6)), 4096,
      "config.json of Mixtral-8x7B-v0.1"}},
    {"mixtral-8x22b",
     {mixtral(llama(56, 6144, 48, 8, 16384, 32768, 1e6)), 4096,
      "config.json of Mixtral-8x22B-v0.3"}},
    {"nemotron4-15b", {nemotron(32, 6144, 48), 4096, "arXiv:2402.16819, table 1"}},
    {"nemotron4-340b", {nemotron(96, 18432, 96), 4096, "arXiv:2406.11704, table 1"}},
    {"olmo2-7b",
     {olmo2(llama(32, 4096, 32, 32, 11008, 100'352, 5e5)), 4096, "config.json of OLMo-2-1124-7B"}},
    {"gemma2-9b",
     {gemma2({42, 3584, 16, 8, 256, 14336, 256'000}, 21), 8192, "config.json of gemma-2-9b"}},
    {"gemma3-12b",
     {gemma3({48, 3840, 16, 8, 256, 15360, 262'208}, 8), 32768, "config.json of gemma-3-12b-pt"}},
    {"gemma3-27b",
     {gemma3({62, 5376, 32, 16, 128, 21504, 262'208}, 10), 32768, "config.json of gemma-3-27b-pt"}},
    {"qwen3-30b-a3b", {qwen3_moe(48, 2048, 32, 6144, 768), 4096, "config.json of Qwen3-30B-A3B"}},
    {"qwen3-235b-a22b",
     {qwen3_moe(94, 4096, 64, 12288, 1536), 4096, "config.json of Qwen3-235B-A22B"}},
    {"gpt-oss-20b", {gpt_oss(24, 32), 4096, "config.json of gpt-oss-20b"}},
    {"gpt-oss-120b", {gpt_oss(36, 128), 4096, "config.json of gpt-oss-120b"}},
    {"deepseek-v3", {deepseek_v3(), 4096, "config.json of DeepSeek-V3"}},
    {"qwen3-8b",
     {qwen3(36, 4096, 32, 12288), 4096, "config.json of Qwen3-8B; arXiv:2505.09388, section 3.2"}},
    {"qwen3-14b", {qwen3(40, 5120, 40, 17408), 4096, "config.json of Qwen3-14B"}},
    {"qwen3-32b", {qwen3(64, 5120, 64, 25600), 4096, "config.json of Qwen3-32B"}}};

/// Checks which layers attend within a window.
void require_windows(ModelConfig const& model, Facts const& facts) {
  if (facts.window == 0) {
    REQUIRE(model.window == 0);
    REQUIRE(model.pattern.empty());
    return;
  }
  std::int64_t full = 0;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    LayerConfig const& layer = layer_kind(model, i);
    if (layer.window == 0) {
      ++full;
      REQUIRE(layer.rotary_base == facts.rotary_base);
    } else {
      REQUIRE(layer.window == facts.window);
      REQUIRE(layer.rotary_base == facts.window_base);
    }
  }
  REQUIRE(full == facts.full_layers);
  REQUIRE(layer_kind(model, 0).window == facts.window);
}

TEST_CASE("bundled models agree with what is published in every field that training needs",
          "[model]") {
  std::size_t files = 0;
  auto const folder = std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "models";
  for (auto const& entry : std::filesystem::directory_iterator{folder}) {
    std::string const name = entry.path().stem();
    CAPTURE(name);
    REQUIRE(published.contains(name));
    auto const& [facts, sequence, source] = published.at(name);
    CAPTURE(source);
    ModelConfig const model = load_model_file(entry.path());
    REQUIRE(model.layers == facts.layers);
    REQUIRE(model.hidden == facts.hidden);
    REQUIRE(model.heads == facts.heads);
    REQUIRE(model.kv_heads == facts.kv_heads);
    REQUIRE(model.head_dim == facts.head_dim);
    REQUIRE(model.ffn_hidden == facts.ffn_hidden);
    REQUIRE(model.vocabulary == facts.vocabulary);
    REQUIRE(model.sequence == sequence);
    REQUIRE(model.activation == facts.activation);
    REQUIRE(model.norm == facts.norm);
    REQUIRE(model.norm_epsilon == facts.norm_epsilon);
    REQUIRE(model.positions == facts.positions);
    if (model.positions == Positions::rotary) REQUIRE(model.rotary_base == facts.rotary_base);
    REQUIRE(model.tied_embeddings == facts.is_tied);
    REQUIRE(model.biases == facts.has_biases);
    REQUIRE_FALSE(model.qkv_bias);
    REQUIRE(model.sinks == facts.has_sinks);
    REQUIRE(model.norms == facts.norms);
    REQUIRE(model.qk_norm == facts.qk_norm);
    REQUIRE(model.attention_softcap == facts.attention_softcap);
    REQUIRE(model.logit_softcap == facts.logit_softcap);
    require_windows(model, facts);
    REQUIRE(model.latent_attention == facts.latents);
    REQUIRE(model.experts == facts.experts);
    REQUIRE(model.dropout == facts.dropout);
    ++files;
  }
  REQUIRE(files == published.size());
}

}  // namespace
}  // namespace stagecraft::published_models_test
