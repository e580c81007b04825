#include "libsim/plan/state_types.hpp"

namespace stagecraft {
namespace {

ElementType type_of(StateType type, Precision precision) {
  return type == StateType::bf16 ? ElementType::bf16 : accumulation_type(precision);
}

}  // namespace

ElementType step_tensor_type(TensorId tensor, TrainingConfig const& config) {
  switch (tensor) {
    case step_tensor::parameters:
      return activation_type(config.model.precision);
    case step_tensor::gradients:
      return gradient_type(config);
    case step_tensor::first_moment:
    case step_tensor::second_moment:
      return moments_type(config);
    default:
      return accumulation_type(config.model.precision);
  }
}

ElementType gradient_type(TrainingConfig const& config) {
  return type_of(config.memory.gradient_dtype, config.model.precision);
}

Bytes counter_bytes(std::int64_t elements, TrainingConfig const& config) {
  return Bytes{elements * element_size(step_tensor_type(step_tensor::counters, config))};
}

ElementType moments_type(TrainingConfig const& config) {
  return type_of(config.memory.moments_dtype, config.model.precision);
}

Bytes master_bytes_per_parameter(TrainingConfig const& config) {
  Precision const precision = config.model.precision;
  bool const has_copy = precision == Precision::fp16 || precision == Precision::bf16;
  return Bytes{has_copy ? element_size(accumulation_type(precision)) : 0};
}

Bytes optimizer_bytes_per_parameter(TrainingConfig const& config) {
  return master_bytes_per_parameter(config) + Bytes{2 * element_size(moments_type(config))};
}

}  // namespace stagecraft
