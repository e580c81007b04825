#include "libsim/plan/state_buffers.hpp"

#include <algorithm>
#include <cmath>

#include "libsim/plan/units/unit_types.hpp"

namespace stagecraft {
namespace {

ElementType type_of(StateType type, Precision precision) {
  return type == StateType::fp32 ? accumulation_type(precision) : activation_type(precision);
}

}  // namespace

std::vector<StateBuffer> state_buffers(TrainingConfig const& config, StateExtents const& extents) {
  Precision const precision = config.model.precision;
  ElementType const wide = accumulation_type(precision);
  // Units without master copies update their shards in the type in which these are kept.
  bool const has_units = config.sharding.has_units();
  UnitTypes const of_units = unit_types(config);
  bool const keeps_master = has_master(config);
  ElementType const of_moments = has_units && !keeps_master
                                     ? of_units.stored
                                     : type_of(config.memory.moments_dtype, precision);
  std::vector<StateBuffer> buffers;
  auto const add = [&](TensorId tensor, Category category, ElementType type,
                       std::int64_t elements) {
    buffers.push_back({.tensor = tensor, .category = category, .type = type, .elements = elements});
  };
  auto const add_shard = [&](TensorId tensor, Category category, ElementType type,
                             Lifetime lifetime) {
    add(tensor, category, type, extents.shard);
    buffers.back().where.is_shared = true;
    buffers.back().lifetime = lifetime;
  };
  std::int64_t const on_host = offloaded_elements(config, extents.shard);
  auto const add_state = [&](TensorId tensor, ElementType type, Lifetime lifetime,
                             bool stays = false) {
    std::int64_t const left = stays ? extents.shard : extents.shard - on_host;
    if (left > 0) {
      add_shard(tensor, Category::optimizer, type, lifetime);
      buffers.back().elements = left;
    }
    if (on_host == 0) return;
    add_shard(tensor, Category::optimizer, type, lifetime);
    buffers.back().elements = on_host;
    buffers.back().where.place = Residence::Place::host;
  };
  buffers.reserve(2 * step_tensors.size());
  if (config.sharding.shares_parameters()) {
    add_shard(step_tensor::parameters, Category::parameters, of_units.stored, Lifetime::job);
  } else {
    add(step_tensor::parameters, Category::parameters, activation_type(precision),
        extents.parameters - extents.only_quantised);
  }
  if (has_units) {
    bool const is_kept = config.sharding.traits().keeps_gradients;
    add_shard(step_tensor::gradients, Category::gradients, of_units.gradients,
              is_kept ? Lifetime::job : Lifetime::iteration);
    if (is_kept && config.sharding.bucket > 0) {
      add(step_tensor::bucket, Category::gathered, of_units.reduced, config.sharding.bucket);
    }
  } else {
    add(step_tensor::gradients, Category::gradients, gradient_type(config), extents.parameters);
  }
  if (extents.quantised_weights > 0) {
    add(step_tensor::quantised_weights, Category::parameters, ElementType::f8_e4m3,
        extents.quantised_weights);
  }
  if (extents.counters > 0) {
    add(step_tensor::counters, Category::gradients, wide, extents.counters);
  }
  if (keeps_master)
    add_state(step_tensor::master, wide, Lifetime::job, config.offload.keeps_master);
  add_state(step_tensor::first_moment, of_moments, Lifetime::from_first_step);
  add_state(step_tensor::second_moment, of_moments, Lifetime::from_first_step);
  if (on_host > 0) {
    add_shard(step_tensor::host_gradients, Category::gradients, wide, Lifetime::from_first_step);
    buffers.back().elements = on_host;
    buffers.back().where.place = Residence::Place::host;
  }
  return buffers;
}

std::int64_t offloaded_elements(TrainingConfig const& config, std::int64_t shard) {
  double const wanted = std::ceil(config.offload.optimizer * static_cast<double>(shard));
  return std::min(shard, static_cast<std::int64_t>(wanted));
}

bool has_master(TrainingConfig const& config) {
  Precision const precision = config.model.precision;
  return config.sharding.traits().has_master &&
         (precision == Precision::fp16 || precision == Precision::bf16);
}

ElementType gradient_type(TrainingConfig const& config) {
  Precision const precision = config.model.precision;
  if (config.sharding.traits().has_model_gradients) return activation_type(precision);
  return type_of(config.memory.gradient_dtype, precision);
}

}  // namespace stagecraft
