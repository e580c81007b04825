#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/step_op.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A buffer that a rank keeps from one iteration to the next: parameters, gradients, optimizer
/// state, counters. The executor and everything that computes memory read its properties from here.
struct StateBuffer {
  TensorId tensor = 0;  ///< the tensor in it, one of step_tensors
  Category category = Category::parameters;
  ElementType type = ElementType::f16;
  std::int64_t elements = 0;  ///< on one rank
  Residence where{};
  Lifetime lifetime = Lifetime::job;

  Bytes bytes() const { return Bytes{elements * element_size(type)}; }
  bool is_on_host() const { return where.place == Residence::Place::host; }
  /// Whether the device has it when an iteration begins, from the second one on.
  bool is_resident() const { return lifetime != Lifetime::iteration && !is_on_host(); }
};

/// Elements on one rank.
struct StateExtents {
  std::int64_t parameters = 0;
  std::int64_t shard = 0;     ///< optimizer_shard()
  std::int64_t counters = 0;  ///< what blocks add up over an iteration
  /// Bytes of the quantised copies of weights, with their scales.
  std::int64_t quantised_weights = 0;
  std::int64_t only_quantised = 0;  ///< of `parameters`, those with no other copy than these
};

/// The buffers of a rank in the order in which they are allocated: master copies only of 16-bit
/// parameters, counters and quantised copies of weights only if there are any. Bytes per parameter
/// of parameters, gradients, master copies and Adam's moments: fp16 and bf16 2 + 4 + 4 + 8, fp32
/// 4 + 4 + 0 + 8, fp64 8 + 8 + 0 + 16, unless `memory` or `sharding` makes gradients or moments
/// narrower. Parameters that are kept quantised have their copies only. Units make gradients anew
/// in each iteration, unless ShardingTraits says that they are kept, as the bucket then is. They
/// have master copies if ShardingTraits says so.
///
/// With `offload` a tensor may have two buffers, of the device and of the host, whose elements are
/// the rank's first ones. The host has 4 + 4 + 8 bytes of each: gradient, master copy, moments.
/// Source: Megatron-LM, megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py.
std::vector<StateBuffer> state_buffers(TrainingConfig const& config, StateExtents const& extents);

/// How many of the elements of a rank's optimizer state the host updates.
std::int64_t offloaded_elements(TrainingConfig const& config, std::int64_t shard);

/// Whether the optimizer has master copies beside the parameters, which then have 16 bits.
bool has_master(TrainingConfig const& config);

/// Element type of the main gradients.
ElementType gradient_type(TrainingConfig const& config);

}  // namespace stagecraft
