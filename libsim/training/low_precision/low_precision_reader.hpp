#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Section `low_precision`: the name of a recipe, or a map with the key `recipe`. Reports what is
/// wrong at its place.
LowPrecision read_low_precision(ConfigNode const& section);

/// Whether a kind of sharding goes with the run's recipe as its library has it.
bool may_quantise(LowPrecision const& low, ShardingTraits const& sharding);

/// The keys and values of widths of a layer of which a rank's part is not made of whole blocks, as
/// products in 8 bits want it.
std::vector<std::pair<std::string_view, std::int64_t>> unaligned_widths(
    TrainingConfig const& config, LayerConfig const& layer, Recipe recipe);

/// A region whose outputs are discarded and quantised again in backward, if the recipe cannot do
/// that; empty if there is none.
/// Source: Megatron-LM, core/transformer/transformer_config.py, "Delayed scaling does not support".
std::string discarded_without_scale(TrainingConfig const& config, Recipe recipe);

/// What another key must be, and why, for parameters that are kept in 8 bits alone; empty if
/// nothing is wrong.
/// Source: Megatron-LM, training/arguments.py, fp8_param_gather.
std::string wrong_for_low_parameters(TrainingConfig const& config);

/// What must be for the input of the activation to be stored in 8 bits; empty if nothing is wrong.
/// Source: Megatron-LM, core/transformer/transformer_config.py, activation_func_fp8_input_store.
std::string wrong_for_stored_input(TrainingConfig const& config);

/// What other keys must be for products in 8 bits, and what of section `low_precision` is not
/// modelled. Problems go to the diagnostics of `root`, the root of a run file.
void check_low_precision(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
