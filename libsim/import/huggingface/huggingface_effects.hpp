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

/// Keys without an effect on time and memory, in files of any family.
inline constexpr std::array<std::string_view, 72> idle_keys{"architectures",
                                                            "attn_implementation",
                                                            "auto_map",
                                                            "bad_words_ids",
                                                            "begin_suppress_tokens",
                                                            "conv_template",
                                                            "context_window_size",
                                                            "full_attn_mod",
                                                            "interpolate_factor",
                                                            "is_llama_config",
                                                            "n_special",
                                                            "predict_special_tokens",
                                                            "prefill_chunk_size",
                                                            "rope_interleaved",
                                                            "runner_max_sequence_length",
                                                            "tensor_parallel_shards",
                                                            "transformers.js_config",
                                                            "bos_token_id",
                                                            "chunk_size_feed_forward",
                                                            "cross_attention_hidden_size",
                                                            "decoder_start_token_id",
                                                            "diversity_penalty",
                                                            "do_sample",
                                                            "early_stopping",
                                                            "embedding_initializer_range",
                                                            "encoder_no_repeat_ngram_size",
                                                            "eos_token_id",
                                                            "exponential_decay_length_penalty",
                                                            "finetuning_task",
                                                            "forced_bos_token_id",
                                                            "forced_eos_token_id",
                                                            "gradient_checkpointing",
                                                            "id2label",
                                                            "initializer_range",
                                                            "is_decoder",
                                                            "is_encoder_decoder",
                                                            "label2id",
                                                            "length_penalty",
                                                            "max_length",
                                                            "min_length",
                                                            "model_type",
                                                            "no_repeat_ngram_size",
                                                            "num_beam_groups",
                                                            "num_beams",
                                                            "num_return_sequences",
                                                            "output_attentions",
                                                            "output_hidden_states",
                                                            "output_scores",
                                                            "pad_token_id",
                                                            "prefix",
                                                            "pretraining_tp",
                                                            "problem_type",
                                                            "pruned_heads",
                                                            "remove_invalid_values",
                                                            "repetition_penalty",
                                                            "return_dict",
                                                            "return_dict_in_generate",
                                                            "sep_token_id",
                                                            "suppress_tokens",
                                                            "task_specific_params",
                                                            "temperature",
                                                            "tf_legacy_loss",
                                                            "tie_encoder_decoder",
                                                            "tokenizer_class",
                                                            "top_k",
                                                            "top_p",
                                                            "torchscript",
                                                            "transformers_version",
                                                            "typical_p",
                                                            "unk_token_id",
                                                            "use_bfloat16",
                                                            "use_cache"};

/// A key without an effect on time and memory that changes what the model computes.
struct TrainedKey {
  std::string_view key;
  std::string_view usual = {};  ///< what frameworks have without a setting
};
inline constexpr std::array trained_keys{TrainedKey{"attention_multiplier"},
                                         TrainedKey{"attn_scale"},
                                         TrainedKey{"attn_temperature_tuning", "false"},
                                         TrainedKey{"clip_qkv"},
                                         TrainedKey{"embedding_multiplier"},
                                         TrainedKey{"floor_scale"},
                                         TrainedKey{"initializer_range", "0.02"},
                                         TrainedKey{"layernorm_full_attention_beta"},
                                         TrainedKey{"layernorm_linear_attention_beta"},
                                         TrainedKey{"layernorm_mlp_beta"},
                                         TrainedKey{"logits_scaling"},
                                         TrainedKey{"no_rope_layer_interval"},
                                         TrainedKey{"no_rope_layers"},
                                         TrainedKey{"query_pre_attn_scalar"},
                                         TrainedKey{"residual_multiplier"},
                                         TrainedKey{"rope_interleaved", "false"},
                                         TrainedKey{"rotary_dim"},
                                         TrainedKey{"scale_attn_by_inverse_layer_idx", "false"},
                                         TrainedKey{"scale_attn_weights", "true"},
                                         TrainedKey{"swa_rope_theta"},
                                         TrainedKey{"use_bidirectional_attention", "false"},
                                         TrainedKey{"use_mrope", "false"}};

constexpr HuggingfaceEffect effect_of(std::string_view key) {
  auto const* const found = std::ranges::find(huggingface_effects, key, &HuggingfaceEffect::key);
  return found == huggingface_effects.end() ? HuggingfaceEffect{.key = key} : *found;
}

}  // namespace stagecraft
