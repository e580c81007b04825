#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/import/shell/script_doubt.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// What variables of the environment say of a run's memory; empty if they are not set.
struct LaunchEnvironment {
  std::string allocator_settings{};  ///< PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF
  std::string cublas_workspace{};    ///< CUBLAS_WORKSPACE_CONFIG

  /// Takes the value of a variable; false if it is none of these.
  bool set(std::string_view name, std::string_view value);
  /// Takes all that another environment sets.
  void add(LaunchEnvironment const& other);
};

/// The training command of a launch script, with its context in the script.
struct LaunchCommand {
  std::vector<ShellWord> launcher;   ///< words before Megatron's own script, such as torchrun's
  std::vector<ShellWord> arguments;  ///< Megatron's flags and their values
  std::optional<std::int64_t> world_size;  ///< from the launcher, else WORLD_SIZE, else #SBATCH
  LaunchEnvironment environment;
  std::string program{};              ///< whose names the arguments have: of started_program()
  std::vector<std::string> notes{};   ///< what was not followed and changes no flag
  std::vector<ScriptDoubt> doubts{};  ///< what was not followed and may change flags
};

/// Reads a shell script that starts training, as follow_script() follows it. It skips sourced files,
/// and loops whose condition is unknown. If an `if` or a `case` depends on a variable that the
/// script does not set, it takes the branch that runs while the variable is unset. Each of these is
/// noted, as a doubt if flags depend on it. The command is the last one with --num-layers, in
/// quotes or not, or that starts a program around Megatron. `preset` holds variables that are set
/// before the script runs. Reports a problem to `diagnostics` if the script has no such command.
LaunchCommand read_launch_script(std::string_view text,
                                 std::string const& origin,
                                 std::map<std::string, std::string> const& preset,
                                 Diagnostics& diagnostics,
                                 std::vector<std::string> const& arguments = {});

/// The same for the words of a command line: everything up to a word that ends in `.py` belongs to
/// the launcher.
LaunchCommand split_launch(std::vector<ShellWord> const& words);

}  // namespace stagecraft
