#pragma once

#include <string>
#include <vector>

#include "libsim/import/megatron/megatron_version.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The settings of a run for which a version of Megatron-LM has no flags, each with what its flags
/// say instead; empty if the flags say everything.
std::vector<std::string> megatron_gaps(TrainingConfig const& config,
                                       MegatronVersion version = MegatronVersion::current);

/// The gaps of the model and of the keys that a search does not choose: those of the run on one
/// rank, without recompute.
std::vector<std::string> megatron_gaps_of_model(TrainingConfig const& config,
                                                MegatronVersion version);

/// Makes a model compute as Megatron-LM does where the results are the same: a softmax that is
/// normalised over the chosen experts has the same probabilities in either order. Returns what it
/// has changed; empty if that is nothing.
std::string take_megatron_order(TrainingConfig& config);

}  // namespace stagecraft
