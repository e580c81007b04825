#pragma once

#include <string_view>
#include <vector>

#include "libsim/import/megatron/megatron_arguments.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Key `low_precision`, by --fp8-format, --fp8-recipe and --fp8-param-gather. Pre: all else of
/// `config` is read. What cannot be had together with it is left out as a run in 16 bits.
LowPrecision read_megatron_low_precision(MegatronArguments& arguments,
                                         TrainingConfig const& config);

/// The values of --fp8-format and --fp8-recipe, and other flags. Pre: the recipe is one that is
/// modelled.
struct LowPrecisionFlags {
  std::string_view format;
  std::string_view recipe;
  std::vector<std::string_view> switches{};  ///< flags without a value
};
LowPrecisionFlags low_precision_flags(LowPrecision const& low);

}  // namespace stagecraft
