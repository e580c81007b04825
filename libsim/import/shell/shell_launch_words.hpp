#pragma once

#include <cstddef>
#include <string_view>

#include "libsim/import/shell/shell_tokens.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// Whether one of the words is --num-layers.
bool has_layers(ShellWords const& words);

/// A program around Megatron that a command starts.
struct StartedProgram {
  std::string_view name{};  ///< "ms-swift" or "verl"; empty: none of these
  std::size_t end = 0;      ///< the first word behind it
};

/// ms-swift is started by `megatron sft`, verl by `python -m verl.trainer.main_ppo`. Their words
/// are names of Python, as --num_layers N and actor.megatron.num_layers=N.
StartedProgram started_program(ShellWords const& words);

/// Splits those words again that are whole commands in quotes (`bash -c "torchrun ..."`), or also
/// flags if `cuts_flags`.
ShellWords cut_again(ShellWords const& words, ShellVariables const& variables, bool cuts_flags);

}  // namespace stagecraft
