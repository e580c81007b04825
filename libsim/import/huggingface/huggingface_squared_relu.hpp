#pragma once

#include <cstdint>
#include <optional>

#include "libsim/import/huggingface/huggingface_keys.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

// Families whose MLP has a squared ReLU without a gate, which --ignore hidden_act approximates by a
// ReLU: the same tensors and products, without one multiplication per element. See
// HuggingfaceFamily::read.

void read_arcee(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
void read_nemotron(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);

}  // namespace stagecraft
