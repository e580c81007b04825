#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/megatron_arguments.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// The text of --moe-layer-freq for experts: a Python list of 1 for sparse and 0 for dense layers,
/// as in [0]*3+[1]*58.
std::string layer_frequency(ExpertsConfig const& experts, std::int64_t layers);

/// Reads --moe-layer-freq: a number N, every N-th layer from the first on, or such a list. Returns
/// whether each layer is sparse; nullopt if the text is neither, or is not about `layers` layers.
std::optional<std::vector<bool>> parse_layer_frequency(std::string_view text, std::int64_t layers);

/// Reads the experts, how they are split and how tokens reach them; does nothing without
/// --num-experts. Problems go to the arguments' diagnostics. Pre: the model's other keys and
/// parallel.tensor are read. Source: megatron/core/transformer/transformer_config.py and
/// megatron/training/arguments.py (names, defaults).
void read_megatron_experts(MegatronArguments& arguments, TrainingConfig& config);

}  // namespace stagecraft
