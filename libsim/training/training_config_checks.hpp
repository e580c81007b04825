#pragma once

#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Reports every combination of settings that cannot be trained, at the place of the key to change.
///
/// `root` is the run file that `config` was read from. A combination is checked only if all its
/// keys were read well, so that one mistake gives one problem.
void check_training_config(TrainingConfig const& config, ConfigNode const& root);

/// The same for a configuration that a program made and that is in no file: the problems have keys
/// but no places. Pre: every number is positive and the group of an interleaved schedule is set.
std::vector<Problem> problems_of(TrainingConfig const& config);

}  // namespace stagecraft
