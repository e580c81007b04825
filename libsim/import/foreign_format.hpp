#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stagecraft {

/// A kind of file that another command reads, or none.
struct ForeignFormat {
  std::string_view name;     ///< with its article
  std::string_view command;  ///< that reads it; empty if there is none
};

/// What `text` is, if it is recognised as the file of another program, or of this one. Launch
/// scripts and run files with Megatron's names are not.
std::optional<ForeignFormat> foreign_format(std::string_view text);

/// "a config.json of Hugging Face; stagecraft import huggingface FILE reads it".
std::string text_of(ForeignFormat const& format);

}  // namespace stagecraft
