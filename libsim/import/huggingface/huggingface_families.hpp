#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libsim/import/huggingface/huggingface_keys.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// How to read the config.json of one family. The family's class in transformers determines what a
/// key means and what its default is.
struct HuggingfaceFamily {
  std::string_view model_type;
  /// Reads everything but precision and attention. `sequence` is the value of --sequence, if given.
  void (*read)(HuggingfaceKeys& keys, std::optional<std::int64_t> sequence, ModelConfig& model);
};

/// The family of this name; null if it cannot be read.
HuggingfaceFamily const* find_family(std::string_view model_type);

/// The names of all families that can be read: `falcon, gemma, gpt2, ...`.
std::string family_names();

}  // namespace stagecraft
