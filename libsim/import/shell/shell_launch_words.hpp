#pragma once

#include "libsim/import/shell/shell_tokens.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// Whether one of the words is --num-layers.
bool has_layers(ShellWords const& words);

/// Splits those words again that are whole commands in quotes (`bash -c "torchrun ..."`), or also
/// flags if `cuts_flags`.
ShellWords cut_again(ShellWords const& words, ShellVariables const& variables, bool cuts_flags);

}  // namespace stagecraft
