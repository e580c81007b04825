#pragma once

#include <functional>
#include <string>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The loss of an iteration if one element of one parameter is moved; on one rank, in fp64.
double loss_beside(TrainingConfig const& config,
                   std::string const& name,
                   std::size_t element,
                   double by);

/// Requires that gradients are slopes of the loss, at four elements of each parameter whose name
/// `is_meant`. Returns how many parameters these are. Pre: the model is in fp64.
int require_slopes(TrainingConfig const& config,
                   std::function<bool(std::string const&)> const& is_meant);

/// Requires that every rank holds, at its peak, what the simulator predicts, in each category but
/// workspace.
void require_predicted_bytes(TrainingConfig const& config);

}  // namespace stagecraft
