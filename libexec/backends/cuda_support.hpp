#pragma once

#include <string>

#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// The key of a model, with its value, for whose ops there are no CUDA kernels: "model.experts".
/// Empty if all have kernels.
std::string key_without_cuda(ModelConfig const& model);

}  // namespace stagecraft
