#pragma once

#include <cstdint>

#include "libsim/model/tensor.hpp"
#include "libsim/plan/step_op.hpp"
#include "libsim/plan/training_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Element type of one of step_tensors. Pre: it is not a number.
ElementType step_tensor_type(TensorId tensor, TrainingConfig const& config);
/// Element type of the main gradients.
ElementType gradient_type(TrainingConfig const& config);
/// The bytes that so many elements of counters take.
Bytes counter_bytes(std::int64_t elements, TrainingConfig const& config);
/// Element type of Adam's moments.
ElementType moments_type(TrainingConfig const& config);
/// Bytes of an fp32 copy of a 16-bit parameter; 0: parameters are their own master.
Bytes master_bytes_per_parameter(TrainingConfig const& config);
/// Bytes of optimizer state per parameter: the master copy and two moments.
Bytes optimizer_bytes_per_parameter(TrainingConfig const& config);

}  // namespace stagecraft
