#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// One constant of a system, as text for a table.
struct ConstantRow {
  std::string key;    ///< below `system`, such as "accelerator.peak.fp16"
  std::string value;  ///< exact, such as "312"; a measured table as its points
  std::string unit;   ///< such as "TFLOP/s"; empty for counts, fractions and tables
  std::string source;
  std::string fitted;  ///< empty: not fitted; else on what
};

/// Every constant of a system with where it comes from, in the order of a system file. A constant
/// of several values (peaks by precision; latency and bandwidth) has a row for each.
std::vector<ConstantRow> list_constants(System const& system);

/// What to tell whoever reads numbers of a system that no measurement was held against; nothing of
/// one that is validated, or made of measurements (assumed_constants() are told apart).
std::optional<std::string> validation_warning(System const& system);

/// How the source of a constant begins that a calibration took from another system.
inline constexpr std::string_view assumed_source = "assumed to be as in ";

/// Keys of the constants of a calibrated system that were not measured but assumed, such as
/// "node.all_reduce".
std::vector<std::string> assumed_constants(System const& system);

}  // namespace stagecraft
