#pragma once

#include <string>

#include "libsim/import/layer_windows.hpp"
#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// Reads --window-size and --window-attn-skip-freq. Pre: all other keys of layers are read, experts
/// included. Source: megatron/core/transformer/utils.py, is_layer_window_attention.
void read_megatron_windows(MegatronArguments& arguments, ModelConfig& model);

/// Reads --softmax-type: whether there are sinks.
void read_megatron_sinks(MegatronArguments& arguments, ModelConfig& model);

/// The text of --window-attn-skip-freq: N if every N-th layer attends fully, else a list of 1 for
/// layers within the window and 0 for the others; empty if all are within it.
std::string window_frequency(LayerWindows const& layers);

}  // namespace stagecraft
