#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// A part of a script: a word as it is written, quotes included; an operator such as `;`; an end of
/// a line; or an assignment of an array, with its elements as they are written.
struct ShellToken {
  enum class Kind { word, operation, newline, array };
  Kind kind = Kind::word;
  ShellWord word;                   ///< array: the name
  bool appends = false;             ///< array: `+=`
  std::vector<ShellWord> elements;  ///< array
};

/// Cuts a script into tokens. Texts of here-documents and comments are left out, but comments that
/// start with `#SBATCH` go to `sbatch`.
std::vector<ShellToken> shell_tokens(std::string_view script, std::vector<std::string>& sbatch);

}  // namespace stagecraft
