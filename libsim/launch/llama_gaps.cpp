#include "libsim/launch/llama_gaps.hpp"

namespace stagecraft {

std::vector<std::string> llama_gaps(ModelConfig const& model, LlamaModel const& llama) {
  std::vector<std::string> gaps;
  std::string const owner{llama.owner};
  auto const gap = [&](bool is_there, std::string const& text) {
    if (is_there) gaps.push_back(text);
  };
  gap(!model.pattern.empty() || has_experts(model) || model.predicted_tokens > 0,
      "model: only dense models of equal layers are written for " + owner);
  gap(model.norm != Norm::rmsnorm || model.norms != NormPlaces::pre ||
          model.residual != Residual::sequential || model.activation != Activation::swiglu ||
          model.positions != Positions::rotary || model.biases || model.qkv_bias ||
          model.qk_norm != QkNorm::none || has_latents(model),
      "model: " + owner +
          "'s Llama has RMSNorm before attention and MLP, SwiGLU, rotary positions, no biases, no "
          "norms of queries and keys");
  gap(model.window != 0 || model.sinks || model.attention_softcap != 0 || model.logit_softcap != 0,
      "model: " + owner + "'s Llama attends to all tokens before, without sinks and soft caps");
  gap(model.rotary_fraction != 1,
      "model.rotary_fraction: " + owner + "'s Llama rotates whole heads");
  gap(model.tied_embeddings && !llama.may_tie,
      "model.tied_embeddings: " + owner + "'s Llama has a head of its own");
  gap(model.dropout != 0 || attention_dropout(model) != 0,
      "model.dropout: " + owner + "'s Llama has none");
  gap(!llama.has_head_dim && model.head_dim * model.heads != model.hidden,
      "model.head_dim: " + owner + "'s Llama has hidden / heads");
  gap(model.attention != Attention::flash, "model.attention: " + owner + "'s is flash");
  bool const is_half = model.precision == Precision::fp16 && llama.has_half;
  gap(model.precision != Precision::bf16 && !is_half,
      "model.precision: " + owner + " computes in bf16" + (llama.has_half ? " or fp16" : ""));
  return gaps;
}

}  // namespace stagecraft
