#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// A kind of file that another command reads, or none.
struct ForeignFormat {
  std::string_view name;       ///< with its article
  std::string_view command;    ///< that reads it; empty if there is none
  std::string_view program{};  ///< if it is a run file with Megatron's names: whose
  bool is_script = false;      ///< of a shell
};

/// What `text` is, if it is recognised as the file of another program, or as a run file of this
/// one.
std::optional<ForeignFormat> foreign_format(std::string_view text);

/// What a YAML or JSON document is, if it is recognised as the file of another program. Several
/// programs have a key `model_type`, in JSON only Hugging Face's.
std::optional<ForeignFormat> foreign_format(YamlNode const& root, bool may_be_json);

/// "a config.json of Hugging Face, which stagecraft import huggingface FILE reads".
std::string text_of(ForeignFormat const& format);

}  // namespace stagecraft
