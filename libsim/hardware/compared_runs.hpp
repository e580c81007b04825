#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Between which settings measured runs lie.
struct RunRange {
  std::int64_t least_sequence = 0;
  std::int64_t most_sequence = 0;
  int most_context = 1;  ///< the widest context parallelism
  int most_gpus = 1;
};

/// The smallest range that holds two.
RunRange joined(RunRange const& a, RunRange const& b);

/// What of a configuration lies outside of a range, each with `where` it was measured:
/// "model.sequence 131072 (measured on H100: 4096 to 8192)".
std::vector<std::string> outside(TrainingConfig const& config,
                                 RunRange const& range,
                                 std::string const& where);

/// Measured runs of one regime on one system that predictions were compared with, how far these
/// were off, and between which settings the runs lie.
///
/// A regime is what may err by an amount of its own: dense models or mixtures of experts, with or
/// without context parallelism, in one precision, with one software stack.
struct ComparedRuns {
  std::string system;
  std::string software;     ///< the name of the stack
  std::string accelerator;  ///< the name of the system's
  bool experts = false;
  bool context_parallel = false;
  Precision precision = Precision::fp16;
  int runs = 0;
  double median_percent = 0;         ///< of the errors of the iteration's time
  double median_signed_percent = 0;  ///< below 0: predicted too short
  RunRange range;
};

/// The runs of configs/compared.yaml.
std::vector<ComparedRuns> const& compared_runs();

/// Whether runs on a system of this name were measured, of whatever regime.
bool is_compared(std::string const& system);

/// ", mostly too short" if predictions of the runs err to one side, else empty.
std::string direction_text(ComparedRuns const& runs);

/// "mixtures of experts with context parallelism in bf16 with the stack 'megatron-core'".
std::string regime_text(TrainingConfig const& config, Software const& software);

/// How far off predictions of measured runs of mixtures of experts in 16 bits were: on the system's
/// accelerator, or if there are none, on each. "the median error of such runs in 16 bits is 18.8 %
/// on dgx-h100 (17 runs, mostly too short)".
std::string expert_errors_text(System const& system);

/// The runs on a system (by its name, with its stack) of the regime of a configuration; null if
/// there are none.
ComparedRuns const* compared_runs_of(TrainingConfig const& config, System const& system);

}  // namespace stagecraft
