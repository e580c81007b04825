#pragma once

#include <utility>

#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A configuration that leaves nothing open that a plan needs: no window of stored microbatches is
/// `auto`, no order follows from costs, and early recompute has its places. Plans are made of this
/// type alone, so that nobody can forget to settle a run.
///
/// settled() (libsim/engine/settle.hpp) makes one of any configuration, with a system's costs and
/// memory. as_settled() makes one of a configuration that leaves nothing open.
class SettledConfig {
 public:
  TrainingConfig const& get() const { return config_; }
  TrainingConfig const* operator->() const { return &config_; }

 private:
  explicit SettledConfig(TrainingConfig config) : config_{std::move(config)} {}
  friend SettledConfig as_settled(TrainingConfig config);

  TrainingConfig config_;
};

/// \throws ScheduleError  if something is left to decide; the message says what.
SettledConfig as_settled(TrainingConfig config);

}  // namespace stagecraft
