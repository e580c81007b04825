#pragma once

#include <cstdint>
#include <optional>

#include "libsim/import/huggingface/huggingface_keys.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

// Llama, and families that are Llama with other norms, windows and caps; see
// HuggingfaceFamily::read.

/// What all of them share: RMS norms, rotary positions, grouped heads, a gated MLP, no biases.
void read_llama_like(HuggingfaceKeys& keys,
                     std::optional<std::int64_t> sequence,
                     bool is_tied,
                     ModelConfig& model);

/// Biases of queries, keys and values alone, as `attention_bias` of several families means.
void read_qkv_bias(HuggingfaceKeys& keys, bool fallback, ModelConfig& model);

void read_exaone4(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_gemma(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_gemma2(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_gemma3(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_hunyuan(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_glm(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_glm4(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_olmo2(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_olmo3(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_qwen3(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_stablelm(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_vaultgemma(HuggingfaceKeys& keys,
                     std::optional<std::int64_t> sequence,
                     ModelConfig& model);

}  // namespace stagecraft
