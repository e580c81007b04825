#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// How many values a flag of Megatron-LM takes.
enum class FlagValues : std::uint8_t { none, one, many };

/// What a flag of Megatron-LM means for a run.
struct MegatronFlag {
  enum class Effect : std::uint8_t {
    modelled,  ///< the reader uses it
    none,      ///< changes neither memory nor time: logging, paths, learning-rate schedules
    small,     ///< changes them by less than 1 %, and is not modelled
    large,     ///< may change them by more, and is not modelled
    program,   ///< makes the run another kind of program
  };
  std::string_view name;  ///< without dashes
  FlagValues values = FlagValues::none;
  Effect effect = Effect::modelled;
  /// The value at which the flag has no effect, such as 1 of num-distributed-optimizer-instances;
  /// or empty.
  std::string_view harmless = {};
  /// Which way it changes the run; of a program its kind.
  std::string_view direction = {};
  /// What is modelled instead if it is left out.
  std::string_view instead = {};
  /// Names of flags without any of which it changes nothing, separated by blanks; or empty.
  std::string_view needs = {};
  /// The present name of a flag that was renamed.
  std::string_view same_as = {};
  /// Only Megatron-LM up to 2022 has it.
  bool is_old = false;
  /// In a command line that is written; flags without a place come last.
  std::size_t place = std::numeric_limits<std::size_t>::max();
};

/// The flag of this name; null if no known version of Megatron-LM has it. Source:
/// NVIDIA/Megatron-LM, megatron/training/arguments.py at d98e8a64, the dataclasses of which it
/// makes flags, and its releases since core 0.8; names that were removed before, and those of
/// descendants, as launch scripts use them.
MegatronFlag const* find_flag(std::string_view name);

/// Where a flag stands in a command line that is written. Pre: it is known.
std::size_t place_of_flag(std::string_view name);

/// All names, with two dashes.
std::vector<std::string> flag_names();

}  // namespace stagecraft
