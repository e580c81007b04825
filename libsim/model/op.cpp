#include "libsim/model/op.hpp"

namespace stagecraft {

std::string_view name_of(Stream stream) {
  switch (stream) {
    case Stream::compute:
      return "compute";
    case Stream::tensor_parallel:
      return "tensor_parallel";
    case Stream::data_parallel:
      return "data_parallel";
    case Stream::send:
      return "send";
    case Stream::receive:
      return "receive";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::recompute:
      return "recompute";
    case Phase::input_gradient:
      return "input_gradient";
    case Phase::weight_gradient:
      return "weight_gradient";
    case Phase::step:
      return "step";
  }
  return "?";
}

std::string_view name_of(OpKind kind) {
  switch (kind) {
#define STAGECRAFT_KIND(kind_name) \
  case OpKind::kind_name:          \
    return #kind_name;
    STAGECRAFT_KIND(gemm)
    STAGECRAFT_KIND(norm)
    STAGECRAFT_KIND(norm_backward)
    STAGECRAFT_KIND(norm_weight_gradient)
    STAGECRAFT_KIND(bias_add)
    STAGECRAFT_KIND(bias_gradient)
    STAGECRAFT_KIND(rotary)
    STAGECRAFT_KIND(rotary_backward)
    STAGECRAFT_KIND(repeat_heads)
    STAGECRAFT_KIND(repeat_heads_backward)
    STAGECRAFT_KIND(causal_softmax)
    STAGECRAFT_KIND(causal_softmax_backward)
    STAGECRAFT_KIND(causal_softmax_dropout)
    STAGECRAFT_KIND(causal_softmax_dropout_backward)
    STAGECRAFT_KIND(dropout)
    STAGECRAFT_KIND(dropout_backward)
    STAGECRAFT_KIND(merge_heads)
    STAGECRAFT_KIND(concatenate)
    STAGECRAFT_KIND(flash_attention)
    STAGECRAFT_KIND(flash_attention_backward)
    STAGECRAFT_KIND(gelu)
    STAGECRAFT_KIND(gelu_backward)
    STAGECRAFT_KIND(swiglu)
    STAGECRAFT_KIND(swiglu_backward)
    STAGECRAFT_KIND(relu)
    STAGECRAFT_KIND(relu_backward)
    STAGECRAFT_KIND(geglu)
    STAGECRAFT_KIND(geglu_backward)
    STAGECRAFT_KIND(bias_dropout_add)
    STAGECRAFT_KIND(add)
    STAGECRAFT_KIND(load_tokens)
    STAGECRAFT_KIND(load_labels)
    STAGECRAFT_KIND(make_causal_mask)
    STAGECRAFT_KIND(embedding)
    STAGECRAFT_KIND(embedding_backward)
    STAGECRAFT_KIND(add_positions)
    STAGECRAFT_KIND(positions_gradient)
    STAGECRAFT_KIND(slice)
    STAGECRAFT_KIND(widen_logits)
    STAGECRAFT_KIND(logits_maximum)
    STAGECRAFT_KIND(exponentials)
    STAGECRAFT_KIND(cross_entropy)
    STAGECRAFT_KIND(cross_entropy_backward)
    STAGECRAFT_KIND(narrow_logits)
    STAGECRAFT_KIND(all_reduce)
    STAGECRAFT_KIND(all_gather)
    STAGECRAFT_KIND(reduce_scatter)
    STAGECRAFT_KIND(wait)
    STAGECRAFT_KIND(hold)
    STAGECRAFT_KIND(zero_gradients)
    STAGECRAFT_KIND(scale_gradients)
    STAGECRAFT_KIND(unscale_gradients)
    STAGECRAFT_KIND(gradient_norm)
    STAGECRAFT_KIND(clip_gradients)
    STAGECRAFT_KIND(adam)
    STAGECRAFT_KIND(narrow_parameters)
#undef STAGECRAFT_KIND
  }
  return "?";
}

std::string_view name_of(Module module) {
  switch (module) {
    case Module::inputs:
      return "inputs";
    case Module::embedding:
      return "embedding";
    case Module::attention_norm:
      return "attention_norm";
    case Module::attention_input:
      return "attention_input";
    case Module::core_attention:
      return "core_attention";
    case Module::attention_output:
      return "attention_output";
    case Module::mlp_norm:
      return "mlp_norm";
    case Module::mlp:
      return "mlp";
    case Module::mlp_output:
      return "mlp_output";
    case Module::final_norm:
      return "final_norm";
    case Module::head:
      return "head";
    case Module::step:
      return "step";
  }
  return "?";
}

}  // namespace stagecraft
