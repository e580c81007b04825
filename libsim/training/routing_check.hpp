#pragma once

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The largest `routing.factor` of a layer whose experts `ranks` ranks split. A token chooses an
/// expert at most once, so that a rank's experts are chosen by few times as many as balanced.
double largest_routing_factor(ExpertsConfig const& experts, int ranks);

/// Reports what `routing` and `dispatch` cannot be combined with, and what does not fit in a file
/// of counts, with its lines. Warns of what a router decides, which nothing predicts.
/// Pre: the model has experts.
void check_routing(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
