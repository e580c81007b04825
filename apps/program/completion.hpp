#pragma once

#include "apps/program/program.hpp"

namespace stagecraft {

/// The command `completion bash|zsh`: prints a script that completes the program's command lines:
/// commands, options, values that are one of a few words, and files by their extension. The scripts
/// are completion.bash and completion.zsh beside this file, with one part for each command.
/// The program must outlive it.
Command completion_command(Program const& program);

}  // namespace stagecraft
