#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The losses that keep the loads of experts even, by the names of
/// --moe-router-load-balancing-type.
using LossType = std::pair<RouterLoss, std::string_view>;
inline constexpr std::array<LossType, 3> loss_types{
    {{RouterLoss::auxiliary, "aux_loss"},
     {RouterLoss::sequence_auxiliary, "seq_aux_loss"},
     {RouterLoss::global_auxiliary, "global_aux_loss"}}};

/// The text of --moe-layer-freq for experts: a Python list of 1 for sparse and 0 for dense layers,
/// as in [0]*3+[1]*58.
std::string layer_frequency(ExpertsConfig const& experts, std::int64_t layers);

/// Reads --moe-layer-freq: a number N, every N-th layer from the first on (-1: every layer, as the
/// remainder of a division by it is 0), or such a list. Returns whether each layer is sparse;
/// nullopt if the text is neither, or is not about `layers` layers.
std::optional<std::vector<bool>> parse_layer_frequency(std::string_view text, std::int64_t layers);

/// Whether Megatron-LM has a kernel that computes this activation of experts and multiplies it with
/// probabilities, without a flag. Source: megatron/core/transformer/moe/experts.py, bias_act_func,
/// and mlp.py.
bool fuses_weighting(Activation activation);

/// Reads the experts, how they are split and how tokens reach them; does nothing without
/// --num-experts. Problems go to the arguments' diagnostics. Pre: the model's other keys and
/// parallel.tensor are read. Source: megatron/core/transformer/transformer_config.py and
/// megatron/training/arguments.py (names, defaults).
void read_megatron_experts(MegatronArguments& arguments, TrainingConfig& config);

}  // namespace stagecraft
