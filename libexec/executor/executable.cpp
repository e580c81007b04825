#include "libexec/executor/executable.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/training/routing_reader.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

void require_executable(TrainingConfig const& config) {
  MemoryConfig const& memory = config.memory;
  struct Limit {
    std::string_view key;
    std::string_view found;
    std::string_view accepted;
    bool is_met = false;
  };
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
  std::vector<Problem> problems;
  for (Limit const& limit :
       {Limit{"memory.gradient_dtype", name_of(memory.gradient_dtype), "fp32",
              memory.gradient_dtype == StateType::fp32},
        Limit{"memory.moments_dtype", name_of(memory.moments_dtype), "fp32",
              memory.moments_dtype == StateType::fp32},
        Limit{"low_precision", name_of(config.low_precision.recipe), "none",
              config.low_precision.recipe == Recipe::none},
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
              config.offload == Offload{}}}) {
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
