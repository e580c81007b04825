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
    case Phase::data_parallel:
      return "data_parallel";
    case Phase::optimizer:
      return "optimizer";
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
