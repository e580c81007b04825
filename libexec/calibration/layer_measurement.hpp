#pragma once

#include <memory>

#include "libexec/executor/job.hpp"

namespace stagecraft {

/// Three stages of one layer each and one microbatch, everything else as in `config`: a rank of the
/// middle stage holds one layer and nothing else. The layers have the policy of the first stage.
TrainingConfig one_layer_a_stage(TrainingConfig config);

/// One layer of a model, of which one tensor rank's shard runs for real and alone: collectives take
/// their price (see SoloCommunicator), input and gradient are random numbers.
class MeasuredLayer {
 public:
  /// Allocates and starts the layer's parameters. The prices of `parts` must outlive it; tokens are
  /// not needed. `kernel_threads`: as the backend has them.
  /// \throws MemoryLimitError, and what the backend throws.
  MeasuredLayer(TrainingConfig const& config, ExecutionParts const& parts, int kernel_threads);
  ~MeasuredLayer();
  MeasuredLayer(MeasuredLayer const&) = delete;
  MeasuredLayer(MeasuredLayer&&) = delete;
  MeasuredLayer& operator=(MeasuredLayer const&) = delete;
  MeasuredLayer& operator=(MeasuredLayer&&) = delete;

  struct Times {
    SimTime forward{0};
    SimTime backward{0};  ///< recompute included
    SimTime sum() const { return forward + backward; }
  };
  /// Takes one microbatch through the layer and back.
  Times run();

  /// What the last forward left allocated for its backward: its input included, its output, which
  /// is the next layer's input, not. Counted at the allocator.
  Bytes saved() const;

 private:
  class Rank;
  std::unique_ptr<Rank> rank_;
};

}  // namespace stagecraft
