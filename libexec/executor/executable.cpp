#include "libexec/executor/executable.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/training/routing_reader.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

void require_executable(TrainingConfig const& config) {
  std::vector<Problem> problems;
  auto const refuse = [&](std::string key, std::string_view found, std::string accepted) {
    problems.push_back({.place = {},
                        .key = std::move(key),
                        .found = "'" + std::string{found} + "'",
                        .accepted = std::move(accepted),
                        .condition = "when a plan is executed"});
  };
  MemoryConfig const& memory = config.memory;
  if (memory.gradient_dtype != StateType::fp32) {
    refuse("memory.gradient_dtype", name_of(memory.gradient_dtype), "fp32");
  }
  if (memory.moments_dtype != StateType::fp32) {
    refuse("memory.moments_dtype", name_of(memory.moments_dtype), "fp32");
  }
  if (config.sharding.shares_parameters()) {
    refuse("sharding", name_of(config.sharding.kind), "none, distributed_optimizer");
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
