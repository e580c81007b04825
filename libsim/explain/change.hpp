#pragma once

#include <string>
#include <vector>

#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// One change to a run: something to try alone.
struct Change {
  std::string what;              ///< e.g. "recompute full, layer by layer"
  std::vector<std::string> set;  ///< KEY=VALUE, as --set takes them
  /// The choice of the run that this takes back, where it does: a setting that is not the default
  /// and should pay, e.g. "selective recompute (core attention)"; empty otherwise.
  std::string undoes;
};

/// Every change by one step that an explanation tries: recompute_changes(), sequence parallelism,
/// microbatch size halved and doubled, each exchange of a factor of two between tensor, pipeline
/// and data parallelism (so that the number of accelerators stays), the next larger and smaller
/// interleaving, distributed optimizer, overlapped gradients and transfers, masks, attention,
/// output deallocation. What is not legal is among them, and policies that the run has already.
std::vector<Change> single_changes(TrainingConfig const& config);

}  // namespace stagecraft
