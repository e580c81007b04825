#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/import/shell_words.hpp"

namespace stagecraft {

/// The command of a launch script that trains, with what the script says around it.
struct LaunchCommand {
  std::vector<ShellWord> launcher;         ///< words before Megatron's own script, torchrun's say
  std::vector<ShellWord> arguments;        ///< Megatron's flags and their values
  std::optional<std::int64_t> world_size;  ///< from the launcher, else WORLD_SIZE, else #SBATCH
  std::vector<std::string> notes;          ///< what was not followed
};

/// Reads a shell script in the style of Megatron-LM's examples: assignments, arrays, `export`, `if`
/// with plain comparisons, line continuations, comments. Loops, functions and sourced files are not
/// followed (noted); a condition that depends on what the script does not set skips its branch
/// (noted). The command is the last one with --num-layers, in quotes or not; `preset` are variables
/// set before the script runs.
/// A problem goes to `diagnostics` where there is no such command.
LaunchCommand read_launch_script(std::string_view text,
                                 std::string const& origin,
                                 std::map<std::string, std::string> const& preset,
                                 Diagnostics& diagnostics);

/// The same for the words of a command line: everything before a word that ends in `.py` belongs to
/// the launcher.
LaunchCommand split_launch(std::vector<ShellWord> const& words);

}  // namespace stagecraft
