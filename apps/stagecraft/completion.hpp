#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/stagecraft/program.hpp"

namespace stagecraft {

/// Scripts that complete a program's command lines: commands, options, values that are one of a few
/// words, and files by their extension. Every command is asked for its options (OptionTable), so
/// that nothing about them is written down a second time.

/// For bash: to be sourced, or put into bash-completion/completions under the program's name.
std::string bash_completion(Program const& program);

/// For zsh: to be put into a folder of its fpath under the program's name with _ before it.
std::string zsh_completion(Program const& program);

/// `completion bash|zsh`, which every program has: prints a script.
inline constexpr std::string_view completion_name = "completion";
inline constexpr std::string_view completion_summary =
    "a script that completes command lines in bash or zsh";
int completion_command(Program const& program, std::vector<std::string> const& arguments);

}  // namespace stagecraft
