#include "libexec/backends/cuda_support.hpp"

#include "libsim/model/layer_kinds.hpp"

namespace stagecraft {

std::string key_without_cuda(ModelConfig const& model) {
  for (LayerRun const& run : layer_runs(model)) {
    if (run.kind.experts) return "model.experts";
  }
  return {};
}

}  // namespace stagecraft
