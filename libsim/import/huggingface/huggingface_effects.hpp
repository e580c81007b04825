#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "libsim/import/omissions.hpp"

namespace stagecraft {

/// How a key that is left out changes the model.
struct HuggingfaceEffect {
  std::string_view key;
  OmittedEffect effect = OmittedEffect::large;
  std::string_view direction = "either way";
};

/// The keys whose values may be left out. Biases, norms of few elements and dropout behind the
/// embedding are below 1 % of a layer's traffic; whatever is not sure to be small is large.
inline constexpr std::array huggingface_effects{
    HuggingfaceEffect{"attention_bias", OmittedEffect::small, "more time and memory"},
    HuggingfaceEffect{"attention_out_bias", OmittedEffect::small, "more time and memory"},
    HuggingfaceEffect{"mlp_bias", OmittedEffect::small, "more time and memory"},
    HuggingfaceEffect{"enable_bias", OmittedEffect::small, "less time and memory"},
    HuggingfaceEffect{"embd_pdrop", OmittedEffect::small},
    HuggingfaceEffect{"embedding_dropout", OmittedEffect::small},
    HuggingfaceEffect{"layer_norm_elementwise_affine", OmittedEffect::small, "less memory"},
    HuggingfaceEffect{"do_layer_norm_before", OmittedEffect::small},
    HuggingfaceEffect{"_remove_final_layer_norm", OmittedEffect::small, "less time and memory"},
    HuggingfaceEffect{"apply_residual_connection_post_layernorm", OmittedEffect::small},
    HuggingfaceEffect{"alibi", OmittedEffect::small},
    HuggingfaceEffect{"swiglu_alpha", OmittedEffect::small},
    HuggingfaceEffect{"swiglu_limit", OmittedEffect::small},
    HuggingfaceEffect{"max_position_embeddings", OmittedEffect::small, "less memory"},
    HuggingfaceEffect{"hidden_act", OmittedEffect::large, "more time and memory"},
    HuggingfaceEffect{"add_cross_attention", OmittedEffect::large, "more time and memory"},
    HuggingfaceEffect{"reorder_and_upcast_attn", OmittedEffect::large, "more time and memory"},
    HuggingfaceEffect{"qk_layernorm", OmittedEffect::large, "more time and memory"},
    HuggingfaceEffect{"mlp_only_layers", OmittedEffect::large, "less memory"},
    HuggingfaceEffect{"attention_chunk_size", OmittedEffect::large, "less time"},
    HuggingfaceEffect{"sliding_window", OmittedEffect::large, "less time"},
    HuggingfaceEffect{"quantization_config", OmittedEffect::large, "less time and memory"}};

constexpr HuggingfaceEffect effect_of(std::string_view key) {
  auto const* const found = std::ranges::find(huggingface_effects, key, &HuggingfaceEffect::key);
  return found == huggingface_effects.end() ? HuggingfaceEffect{.key = key} : *found;
}

}  // namespace stagecraft
