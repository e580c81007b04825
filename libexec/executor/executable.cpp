#include "libexec/executor/executable.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/model/low_precision.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/program/low_library.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/training/routing_reader.hpp"
#include "libsim/training/sharding.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

/// What may be wrong with a key.
struct Limit {
  std::string_view key;
  std::string_view found;
  std::string_view accepted;
  bool is_met = false;
};

/// The limits of products in 8 or 4 bits.
std::vector<Limit> low_limits(TrainingConfig const& config) {
  LowPrecision const& low = config.low_precision;
  if (low.recipe == Recipe::none) return {};
  bool const casts = traits_of(low.implementation).casts_weights;
  return {
      {"low_precision.recipe", name_of(low.recipe),
       "another: plans have no buffers for the largest elements of steps before",
       low.recipe != Recipe::delayed},
      {"low_precision.implementation", name_of(low.implementation),
       "transformer_engine or torchao: kernels of activations write no quantised tensors",
       !traits_of(low.implementation).fuses_activation},
      {"low_precision.parameters", name_of(low.parameters),
       "high: parameters in 8 bits alone are not updated", low.parameters == LowOrHigh::high},
      {"low_precision.attention", "true", "false: kernels of attention read 16 bits",
       !low.attention},
      {"low_precision.dispatch", name_of(low.dispatch),
       "high: rows that travel one by one are not quantised", low.dispatch == LowOrHigh::high},
      {"sharding.parameter_dtype", name_of(config.sharding.parameter_dtype),
       "auto: units gather weights in 16 bits", config.sharding.parameter_dtype != UnitType::low},
      {"sharding", name_of(config.sharding.kind),
       "none or distributed_optimizer, or low_precision.implementation: torchao, which quantises "
       "what units have gathered",
       !config.sharding.has_units() || casts},
      {"routing", "uneven", "balanced: experts with equally many rows have scales of their own",
       !has_experts(config.model) || !config.routing.is_uneven()}};
}

}  // namespace

void require_executable(TrainingConfig const& config) {
  MemoryConfig const& memory = config.memory;
  std::string const executable_kinds =
      names_of_kinds([](auto const& kind) { return kind.may_execute; });
  // A table that two units share, and gradients that kernels do not make.
  Sharding const& sharding = config.sharding;
  bool const has_units = sharding.has_units();
  // Kernels add and update gradients of units in the type in which they sum.
  UnitTypes const types = unit_types(config);
  ElementType const wide = accumulation_type(config.model.precision);
  std::string_view const summed =
      wide == ElementType::f64 ? "auto, as model.precision is fp64" : "fp32, or auto";
  std::vector<Limit> limits = low_limits(config);
  limits.insert(
      limits.end(),
      {Limit{"memory.gradient_dtype", name_of(memory.gradient_dtype), "fp32",
             memory.gradient_dtype == StateType::fp32},
       Limit{"memory.moments_dtype", name_of(memory.moments_dtype), "fp32",
             memory.moments_dtype == StateType::fp32},
       Limit{"tf32", "true", "false", !config.tf32},
       Limit{"sharding", name_of(config.sharding.kind), executable_kinds,
             config.sharding.traits().may_execute},
       Limit{"sharding.stored_dtype", name_of(sharding.stored_dtype), summed,
             !has_units || types.stored == wide},
       Limit{"sharding.reduce_dtype", name_of(sharding.reduce_dtype), summed,
             !has_units || types.reduced == wide},
       Limit{"sharding.parameter_dtype", name_of(sharding.parameter_dtype),
             "auto, or model.precision",
             !has_units || types.gathered == activation_type(config.model.precision)},
       Limit{"model.tied_embeddings", "true", "false, as units are to be gathered",
             !has_units || !config.model.tied_embeddings},
       Limit{"model.experts", "experts", "none, as units are to be gathered",
             !has_units || !has_experts(config.model)},
       Limit{"model.rotary_fraction", "a part of each head", "1",
             config.model.rotary_fraction == 1},
       Limit{"model.rotary_scaling", "scaled wavelengths", "1", config.model.rotary_scaling == 1},
       Limit{"offload", config.offload.optimizer > 0 ? "optimizer" : "activations", "none",
             config.offload == Offload{}}});
  std::vector<Problem> problems;
  for (Limit const& limit : limits) {
    if (limit.is_met) continue;
    problems.push_back({.place = {},
                        .key = std::string{limit.key},
                        .found = "'" + std::string{limit.found} + "'",
                        .accepted = std::string{limit.accepted},
                        .condition = "when a plan is executed"});
  }
  if (!problems.empty()) throw ConfigError{std::move(problems)};
}

void require_executable_alone(TrainingConfig const& config) {
  if (!has_experts(config.model) || !config.routing.is_uneven()) return;
  if (config.dispatch == Dispatch::alltoall) return;
  // What it would gather, or get once, from the others decides how many rows its experts compute.
  throw ConfigError{{{.place = {},
                      .key = "dispatch",
                      .found = "'" + std::string{name_of(config.dispatch)} + "'",
                      .accepted = "alltoall, as routing is uneven",
                      .condition = "when a rank runs alone"}}};
}

}  // namespace stagecraft
