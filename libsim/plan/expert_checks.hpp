#pragma once

#include <nlohmann/json.hpp>

#include "libsim/config/config_node.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// The largest `routing.factor` of a layer whose experts `ranks` ranks split. A token chooses an
/// expert at most once, so that a rank's experts are chosen by few times as many as balanced.
double largest_routing_factor(ExpertsConfig const& experts, int ranks);

/// Key `routing`: a word, or a map. Reports the ways of routing that are not built.
Routing read_routing(ConfigNode const& node);
/// As read_routing() reads it.
nlohmann::ordered_json to_json(Routing const& routing);

/// Reports what a model with experts cannot be combined with, and expert parallelism without
/// experts.
void check_experts(TrainingConfig const& config, ConfigNode const& root);

}  // namespace stagecraft
