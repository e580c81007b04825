#pragma once

#include <cstdint>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// The tokens of GPT2BPETokenizer with GPT-2's files.
inline constexpr std::int64_t gpt2_vocabulary = 50257;

/// Whether layers are of Megatron-Core's own modules, without Transformer Engine.
bool is_local_megatron(MegatronArguments& arguments, MegatronVersion version);

/// Reads the model from the flags. Problems go to the arguments' diagnostics.
void read_megatron_model(MegatronArguments& arguments, MegatronVersion version, ModelConfig& model);

}  // namespace stagecraft
