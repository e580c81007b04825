#pragma once

#include <optional>
#include <string_view>

#include "libsim/import/huggingface/huggingface_keys.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

// Parts that several families of Hugging Face share. Each reads its keys into fields of the model.

/// Layers, hidden size, heads and vocabulary.
void read_shape(HuggingfaceKeys& keys, ModelConfig& model);

/// The sequence length: --sequence, else the longest that the file allows. \return the file's
std::optional<std::int64_t> read_sequence(HuggingfaceKeys& keys,
                                          std::optional<std::int64_t> sequence,
                                          ModelConfig& model);

/// Learned positions: a table with the file's length plus `offset` rows; the sequence must fit.
void read_learned_positions(HuggingfaceKeys& keys,
                            std::optional<std::int64_t> sequence,
                            std::int64_t offset,
                            ModelConfig& model);

/// Rotary positions: their base, found under `base_key` (or in rope_parameters), scaling, and the
/// part of each head that is rotated, which is `usual_part` if the file does not say it.
void read_rotary_positions(HuggingfaceKeys& keys,
                           std::optional<std::int64_t> sequence,
                           HuggingfaceKeys::Names base_keys,
                           ModelConfig& model,
                           double usual_part = 1);

/// The width of the MLP, which is required, or defaults to 4h.
void read_ffn(HuggingfaceKeys& keys, Need need, ModelConfig& model);

/// The activation: of an MLP with two products (gelu, relu) or of a gated one (swiglu, geglu).
enum class Gate : std::uint8_t { none, gated };
void read_activation(HuggingfaceKeys& keys,
                     HuggingfaceKeys::Names names,
                     std::string_view fallback,
                     Gate gate,
                     ModelConfig& model);

/// The dropout rates of the hidden state and of the attention core.
void read_dropout(HuggingfaceKeys& keys,
                  HuggingfaceKeys::Names hidden,
                  double hidden_fallback,
                  HuggingfaceKeys::Names attention,
                  double attention_fallback,
                  ModelConfig& model);

/// The groups of grouped-query attention and the size of a head, if the file has them.
void read_groups(HuggingfaceKeys& keys, ModelConfig& model);

}  // namespace stagecraft
