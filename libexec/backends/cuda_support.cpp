#include "libexec/backends/cuda_support.hpp"

#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"

namespace stagecraft {

std::string key_without_cuda(ModelConfig const& model) {
  if (has_latents(model)) return "model.latent_attention";
  if (model.predicted_tokens > 0) return "model.predicted_tokens";
  if (model.logit_softcap > 0) return "model.logit_softcap";
  for (LayerRun const& run : layer_runs(model)) {
    LayerConfig const& layer = run.kind;
    if (layer.qk_norm != QkNorm::none) {
      return "model.qk_norm: " + std::string{name_of(layer.qk_norm)};
    }
    if (layer.window > 0) return "model.window";
    if (layer.sinks) return "model.sinks";
    if (layer.attention_softcap > 0) return "model.attention_softcap";
    if (layer.activation == Activation::swiglu_clamped) return "model.activation: swiglu_clamped";
  }
  return {};
}

}  // namespace stagecraft
