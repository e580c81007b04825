#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// One constant of a system, as text for a table.
struct ConstantRow {
  std::string key;    ///< below `system`, such as "accelerator.peak.fp16"
  std::string value;  ///< exact, such as "312"; of a measured table its points
  std::string unit;   ///< such as "TFLOP/s"; empty for counts, fractions and tables
  std::string source;
  std::string fitted;  ///< empty: not fitted; else on what
};

/// Every constant of a system with its source, in the order of a system file. A constant with
/// several values (peaks by precision; latency and bandwidth) has one row per value.
std::vector<ConstantRow> list_constants(System const& system);

/// The same of a software stack. Constants that it does not give are left out.
std::vector<ConstantRow> list_constants(Software const& software);

/// The constants that a user gave without a source, each with where: "network.bandwidth (given in
/// mine.yaml)".
std::vector<std::string> given_constants(System const& system);
std::vector<std::string> given_constants(Software const& software);

/// The warning for readers of a run's numbers if its system or stack was never compared with
/// measurements, or if constants were changed since. It says how far off predictions were only if
/// runs of the configuration's regime were measured on the system and the configuration lies among
/// them. nullopt if both are validated, or the system is made of measurements (for which there is
/// assumed_constants()).
std::optional<std::string> validation_warning(TrainingConfig const& config, System const& system);

/// How the source of a constant begins if a calibration took it from another system.
inline constexpr std::string_view assumed_source = "assumed to be as in ";

/// Keys of the constants of a calibrated system that were not measured but assumed, such as
/// "node.all_reduce".
std::vector<std::string> assumed_constants(System const& system);

}  // namespace stagecraft
