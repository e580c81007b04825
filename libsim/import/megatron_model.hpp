#pragma once

#include "libsim/import/megatron_arguments.hpp"
#include "libsim/import/megatron_import.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// Reads the model from the flags. Problems go to the arguments' diagnostics.
void read_megatron_model(MegatronArguments& arguments, MegatronVersion version, ModelConfig& model);

}  // namespace stagecraft
