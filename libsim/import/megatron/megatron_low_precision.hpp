#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Key `low_precision`, by --fp8-format, --fp8-recipe, --fp8-param-gather, the same of fp4, and
/// flags of what else is in 8 bits.
/// Pre: all else of `config` is read. What cannot be had together with it is left out as a run in 16 bits.
LowPrecision read_megatron_low_precision(MegatronArguments& arguments,
                                         TrainingConfig const& config);

/// The flags of a recipe; none if Megatron-LM does not have it.
struct LowPrecisionFlags {
  std::vector<std::pair<std::string_view, std::string>> values{};
  std::vector<std::string_view> switches{};  ///< flags without a value
};
LowPrecisionFlags low_precision_flags(LowPrecision const& low);

}  // namespace stagecraft
