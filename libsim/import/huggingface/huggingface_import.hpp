#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/omissions.hpp"
#include "libsim/model/model_config.hpp"

namespace stagecraft {

/// What a config.json does not say, or what the user wants to be different.
struct HuggingfaceOptions {
  std::optional<std::int64_t> sequence{};  ///< tokens; the file's longest if not given
  std::optional<Precision> precision{};    ///< the file's torch_dtype if not given
  /// How attention is computed: flash has no causal mask, unfused has one per microbatch.
  Attention attention = Attention::flash;
  bool predicted_tokens = false;      ///< with the file's modules of multi-token prediction
  std::vector<std::string> ignore{};  ///< keys to leave out although they matter
  Strictness strictness = Strictness::lenient;
};

/// A model as config.json describes it.
struct HuggingfaceImport {
  ModelConfig model;
  std::string model_type;
  std::vector<std::string> notes;  ///< what was assumed, approximated or ignored
  std::vector<Omission> left_out;  ///< in no particular order
};

/// Reads the config.json of a model of Hugging Face's transformers. A key means what the family's
/// class there makes of it; what a ModelConfig cannot represent is left out, or a problem if the
/// options are strict.
/// \throws ConfigError  with every problem: place, key, found, accepted.
HuggingfaceImport import_huggingface(std::filesystem::path const& path,
                                     HuggingfaceOptions const& options);

/// The same for text in memory; `origin` names it in messages.
HuggingfaceImport parse_huggingface(std::string_view text,
                                    std::string const& origin,
                                    HuggingfaceOptions const& options);

/// A model file with a comment that names `origin`, the family and the number of parameters.
std::string to_model_file(HuggingfaceImport const& import, std::string const& origin);

}  // namespace stagecraft
