#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libsim/import/huggingface_keys.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// How to read one family's config.json, whose class in transformers fixes what a key means and
/// what holds where it is left out.
struct HuggingfaceFamily {
  std::string_view model_type;
  /// Reads everything but precision and attention. `sequence`: what --sequence says, if anything.
  void (*read)(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
};

/// Nothing if the family cannot be read.
HuggingfaceFamily const* find_family(std::string_view model_type);

/// `falcon, gemma, gpt2, ...`
std::string family_names();

/// Why a family that is known is not read, such as "a mixture of experts"; empty if nothing is
/// known about it.
std::string_view reason_against(std::string_view model_type);

}  // namespace stagecraft
