#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// How many values a flag of Megatron-LM takes.
enum class FlagValues : std::uint8_t { none, one, many };

/// What a flag of Megatron-LM means for a run.
struct MegatronFlag {
  enum class Effect : std::uint8_t {
    modelled,  ///< the reader asks for it
    none,      ///< changes neither memory nor time: logging, paths, schedules of learning
    other,     ///< changes memory or time, and is not modelled: refused unless ignored
  };
  std::string_view name;  ///< without dashes
  FlagValues values = FlagValues::none;
  Effect effect = Effect::modelled;
  /// other: the value at which the flag has no effect, as context-parallel-size 1; empty if none.
  std::string_view harmless = {};
  /// other: what is modelled instead where it is ignored. A name it had before: see same_as.
  std::string_view instead = {};
  /// The present name of a flag that was renamed.
  std::string_view same_as = {};
  /// Only Megatron-LM up to 2022 has it.
  bool is_old = false;
};

/// Nothing if no version of Megatron-LM known here has such a flag. Source: NVIDIA/Megatron-LM,
/// megatron/training/arguments.py at 000c4ac2; names that are gone there, and those of
/// Megatron-DeepSpeed, as the launch scripts of 2020 to 2022 use them.
MegatronFlag const* find_flag(std::string_view name);

/// All names, with two dashes.
std::vector<std::string> flag_names();

}  // namespace stagecraft
