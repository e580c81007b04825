#pragma once

#include <cstdint>

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The largest `routing.factor` of a layer whose experts are split over `ranks` ranks. It is small:
/// a token chooses an expert at most once, so a rank's experts are chosen at most a few times as
/// often as with balanced routing.
double largest_routing_factor(ExpertsConfig const& experts, int ranks);

/// The choices that the tokens of a rank make in one microbatch.
std::int64_t choices_of_rank(TrainingConfig const& config, ExpertsConfig const& experts);

/// Whether balanced routing gives each expert of a layer equally many choices of a rank. True if
/// ranks cannot split a sequence, which is a problem of its own.
bool may_be_balanced(TrainingConfig const& config, ExpertsConfig const& experts);

/// Makes counts as even as they can be (`routing.factor` 1) if routing is balanced and a rank's
/// choices do not divide by the experts of some layer. Returns whether it did.
bool settle_routing(TrainingConfig& config);

/// Reports settings that `routing` and `dispatch` cannot be combined with, and rows of a file of
/// counts that do not fit, with their lines. Warns if the router decides, because nothing predicts
/// its choices. Pre: the model has experts.
void check_routing(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
