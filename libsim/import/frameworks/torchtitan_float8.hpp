#pragma once

#include "libsim/import/frameworks/framework_import.hpp"

namespace stagecraft {

/// Reads the converters that change the model's layers before it is sharded, and the settings of
/// float8: sections `float8` of 2024 and 2025, and `quantize.linear.float8`. Fills section
/// `low_precision`, and what `sharding`, if units share parameters, says of gathers.
/// Source: torchtitan 0.2.2, components/quantization/float8.py.
void read_torchtitan_float8(FrameworkKeys& keys,
                            FrameworkOptions const& options,
                            bool has_units,
                            FrameworkRun& run,
                            nlohmann::ordered_json& sharding);

}  // namespace stagecraft
