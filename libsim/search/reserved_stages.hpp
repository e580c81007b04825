#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "libsim/engine/stage_allocators.hpp"
#include "libsim/training/settled_config.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// What the stages of a search's plans reserve. Plans that differ in the policies of other stages
/// alone reserve the same on a stage, so that its allocator is replayed once for all of them.
/// Threads may share it.
class ReservedStages {
 public:
  /// What `allocators`, which are those of `config`, reserve on a stage for a rank of it. All calls
  /// must be about one model and one system.
  ReservedStage reserve(StageAllocators const& allocators,
                        SettledConfig const& config,
                        StageId stage,
                        int rank);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, ReservedStage> known_;  ///< by a digest of what decides it
};

}  // namespace stagecraft
