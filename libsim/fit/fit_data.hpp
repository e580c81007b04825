#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/run/run_variants.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/validation/data_file.hpp"
#include "libsim/validation/validation.hpp"

namespace stagecraft {

/// The number of parts into which a cross-validation divides groups.
inline constexpr int fold_count = 5;

/// The fold of a group, 0 to fold_count - 1: the upper half of the 64-bit FNV-1a hash of its name,
/// modulo fold_count. It depends on nothing else, so that a group stays where it is when others are
/// added.
/// Source: Fowler, Noll and Vo, RFC 9923.
int fold_of(std::string_view group);

/// A measured run that a fit uses.
struct MeasuredRun {
  TrainingConfig training;
  std::size_t system = 0;  ///< index of FitData::systems
  double seconds = 0;      ///< measured
  double weight = 1;
  std::string group;
};

/// The rows of data files that belong to one system with one software stack.
struct FitData {
  System system;                ///< as the base has it, before any row changes a key of it
  std::vector<System> systems;  ///< the systems of the runs: rows may set keys of the system
  std::vector<MeasuredRun> runs;
  std::int64_t rows = 0;     ///< rows of the files
  std::int64_t untimed = 0;  ///< rows without a measured time
  std::int64_t others = 0;   ///< rows of another system or another stack
  /// Names the system and the stack, as in "'selene-a100' with 'megatron-2022'".
  std::map<std::string, std::int64_t> others_by_name;
  /// Rows that cannot be used, with their problems.
  Validation problems;
};

/// A system and its stack by their names: "'selene-a100' with 'megatron-2022'".
std::string machine_text(System const& system);

/// The system and the stack that `base` names.
/// \throws ConfigError  if it has no system, or one of them cannot be read.
System system_of(RunVariants const& base);

/// Reads the rows of the files over `base` on `jobs` threads. A row belongs to the fit if its system
/// and its software have the names of the base's. `progress` is called with the number of rows
/// read, by one thread at a time.
/// \throws ConfigError  if a column is not a key (DataFile::check), or `base` names no system.
FitData read_fit_data(std::vector<DataFile> const& files,
                      RunVariants const& base,
                      int jobs,
                      std::function<void(std::int64_t rows)> const& progress);

}  // namespace stagecraft
