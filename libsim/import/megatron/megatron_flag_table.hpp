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
    other,     ///< changes memory or time, and is not modelled: refused unless ignored
  };
  std::string_view name;  ///< without dashes
  FlagValues values = FlagValues::none;
  Effect effect = Effect::modelled;
  /// other: the value at which the flag has no effect, such as 1 of context-parallel-size; or
  /// empty.
  std::string_view harmless = {};
  /// other: what is modelled instead if it is ignored.
  std::string_view instead = {};
  /// The present name of a flag that was renamed.
  std::string_view same_as = {};
  /// Only Megatron-LM up to 2022 has it.
  bool is_old = false;
  /// In a command line that is written; flags without a place come last.
  std::size_t place = std::numeric_limits<std::size_t>::max();
};

/// The flag of this name; null if no known version of Megatron-LM has it. Source:
/// NVIDIA/Megatron-LM, megatron/training/arguments.py at 000c4ac2; names that were removed there,
/// and those of Megatron-DeepSpeed, as the launch scripts of 2020 to 2022 use them.
MegatronFlag const* find_flag(std::string_view name);

/// Where a flag stands in a command line that is written. Pre: it is known.
std::size_t place_of_flag(std::string_view name);

/// All names, with two dashes.
std::vector<std::string> flag_names();

}  // namespace stagecraft
