#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Measured runs of one software stack whose reserved bytes were predicted. ln(measured /
/// predicted) is taken to be normally distributed.
struct MemoryRegime {
  std::string software;
  bool is_pipelined = false;  ///< whether these runs have several stages
  int runs = 0;
  double bias = 0;    ///< the median of ln(measured / predicted)
  double spread = 0;  ///< what its standard deviation would be by its 90 % quantile
};

/// Section `reserved` of a text such as configs/residuals.yaml.
/// \throws ConfigError
std::vector<MemoryRegime> read_memory_regimes(std::string_view text, std::string const& origin);

/// The regimes of configs/residuals.yaml.
std::vector<MemoryRegime> const& memory_regimes();

/// The regime with the largest spread, without a bias: for software of which too few runs were
/// measured.
MemoryRegime widest_memory_regime(std::vector<MemoryRegime> const& regimes = memory_regimes());

/// Whether a regime is that of the run's own software, with as many stages as it has: one or more.
bool is_own_regime(MemoryRegime const& regime, TrainingConfig const& config, System const& system);

/// The regime of a run. It has no bias if the stack's memory was fitted to a run, whose own error
/// replaces it. If too few runs of its software were measured, it is the widest for a stack that
/// was fitted so, and else nullopt.
std::optional<MemoryRegime> memory_regime_of(
    TrainingConfig const& config,
    System const& system,
    std::vector<MemoryRegime> const& regimes = memory_regimes());

/// The probability that a rank whose prediction is `reserved` bytes stays within `room`: 0 if
/// there is none.
double fit_probability(std::int64_t reserved, std::int64_t room, MemoryRegime const& regime);

}  // namespace stagecraft
