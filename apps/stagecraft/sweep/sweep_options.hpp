#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/report/operation.hpp"
#include "libsim/sweep/shard.hpp"

namespace stagecraft {

/// By what the rows of the table for people are ranked.
enum class SweepRank { tokens_per_second_per_gpu, iteration_seconds, mfu, cost };

/// The word of the command line.
constexpr char const* name_of(SweepRank rank) {
  switch (rank) {
    case SweepRank::iteration_seconds:
      return "seconds";
    case SweepRank::mfu:
      return "mfu";
    case SweepRank::cost:
      return "cost";
    case SweepRank::tokens_per_second_per_gpu:
      break;
  }
  return "tokens";
}

/// The options of `stagecraft sweep`.
struct SweepOptions {
  std::vector<std::filesystem::path> inputs;  ///< the sweep file; merging: the shards
  std::filesystem::path output;               ///< empty only with is_dry_run
  std::filesystem::path csv;                  ///< empty: none
  Shard shard;
  int jobs = 1;
  std::int64_t limit = 0;  ///< rows that may be computed
  SweepRank rank = SweepRank::tokens_per_second_per_gpu;
  SystemRates rates;
  bool merges = false;
  bool resumes = false;
  bool is_dry_run = false;
  bool json = false;
};

/// The options of the command.
std::vector<Option> sweep_options();

/// \throws CommandLineError
SweepOptions read_sweep_options(CommandLine const& line);

}  // namespace stagecraft
