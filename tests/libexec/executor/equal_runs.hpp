#pragma once

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Untied: a tied embedding's gradients are added in another order where the stages that hold it
/// differ.
TrainingConfig untied(TrainingConfig config);

/// Requires that loss, gradient norm and parameters of three iterations have the same bits.
void require_same_bits(TrainingConfig const& a, TrainingConfig const& b);

/// Requires that the gradients of an iteration differ by no more than `tolerance`, relative to each
/// tensor's norm.
void require_close(TrainingConfig const& a, TrainingConfig const& b, double tolerance);

}  // namespace stagecraft
