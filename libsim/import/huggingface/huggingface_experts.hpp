#pragma once

#include <cstdint>
#include <optional>

#include "libsim/import/huggingface/huggingface_keys.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

// Families with experts; see HuggingfaceFamily::read. Each reads how its class in transformers
// routes.

void read_mixtral(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_qwen2_moe(HuggingfaceKeys& keys,
                    std::optional<std::int64_t> sequence,
                    ModelConfig& model);
void read_qwen3_moe(HuggingfaceKeys& keys,
                    std::optional<std::int64_t> sequence,
                    ModelConfig& model);
void read_olmoe(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_granite_moe(HuggingfaceKeys& keys,
                      std::optional<std::int64_t> sequence,
                      ModelConfig& model);
void read_deepseek_v2(HuggingfaceKeys& keys,
                      std::optional<std::int64_t> sequence,
                      ModelConfig& model);
void read_deepseek_v3(HuggingfaceKeys& keys,
                      std::optional<std::int64_t> sequence,
                      ModelConfig& model);
void read_kimi_k2(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_glm4_moe(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_dots1(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_minimax_m2(HuggingfaceKeys& keys,
                     std::optional<std::int64_t> sequence,
                     ModelConfig& model);
void read_gpt_oss(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_llama4(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);

}  // namespace stagecraft
