#pragma once

#include <string>
#include <vector>

#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// A change to a run, which is tried on its own.
struct Change {
  std::string what;              ///< e.g. "recompute full, layer by layer"
  std::vector<std::string> set;  ///< KEY=VALUE, as --set takes them
  /// The choice of the run that this change reverts, e.g. "selective recompute (core attention)"; a
  /// choice is a setting that is not the default and should pay off. Empty if it reverts none.
  std::string undoes;
  /// Changes of one family do the same on different stages; a table shows the fastest of those that
  /// fit and of those that do not. Empty: a family of its own.
  std::string family{};
};

/// Every single change that an explanation tries: recompute_changes(), sequence parallelism, half
/// and double microbatch size, each exchange of a factor of two between tensor, pipeline and data
/// parallelism (so that the number of accelerators stays), half and double expert parallelism, the
/// next larger and smaller interleaving, schedules that split the backward, distributed optimizer,
/// overlapped gradients and transfers, masks, attention, output deallocation, balanced routing and
/// other dispatchers. The list includes
/// changes that are not legal, and policies that the run already has.
std::vector<Change> single_changes(TrainingConfig const& config);

}  // namespace stagecraft
