#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libexec/reference/reference_training.hpp"

namespace stagecraft {

/// Sets the parameters of each rank to its part of whole ones, before the first step.
std::function<void(RankContext const&, RankExecutor&)> start_from(NamedTensors const& parameters);

/// Logits [sequence of the global batch, position, word], put together from what ranks compute.
class LogitsObserver {
 public:
  explicit LogitsObserver(TrainingConfig const& config);
  void operator()(RankContext const& context, Op const& op, KernelCall const& call);
  std::vector<double> const& logits() const { return logits_; }

 private:
  std::mutex mutex_;
  std::vector<double> logits_;
};

/// Requires equality within 1e-10, relative to the norm of a tensor and absolute for each element.
/// Rounding was seen to reach 1e-14 in gradients, and 6e-13 in parameters after three updates.
void require_same(std::string const& name,
                  std::vector<double> const& ours,
                  std::vector<double> const& theirs);
void require_same(std::vector<WholeTensor> const& ours, NamedTensors const& theirs);

}  // namespace stagecraft
