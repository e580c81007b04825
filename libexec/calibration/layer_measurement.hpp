#pragma once

#include <memory>

#include "libexec/executor/job.hpp"

namespace stagecraft {

/// `config` with three stages of one layer each and one microbatch: a rank of the middle stage
/// holds one layer and nothing else. The layers have the recompute policy of the first stage.
TrainingConfig one_layer_per_stage(TrainingConfig config);

/// One layer of a model. It executes the shard of one tensor rank alone: collectives take their
/// modelled time (see SoloCommunicator), and input and gradient are random numbers.
class MeasuredLayer {
 public:
  /// Allocates and initializes the layer's parameters. The costs in `parts` must outlive this
  /// object; tokens are not needed. `kernel_threads` is that of the backend.
  /// \throws MemoryLimitError, and what the backend throws.
  MeasuredLayer(TrainingConfig const& config, ExecutionParts const& parts, int kernel_threads);
  ~MeasuredLayer();
  MeasuredLayer(MeasuredLayer const&) = delete;
  MeasuredLayer(MeasuredLayer&&) = delete;
  MeasuredLayer& operator=(MeasuredLayer const&) = delete;
  MeasuredLayer& operator=(MeasuredLayer&&) = delete;

  struct Times {
    SimTime forward{0};
    SimTime backward{0};                ///< recompute included
    SimTime forward_communication{0};   ///< the part of `forward` spent waiting for collectives
    SimTime backward_communication{0};  ///< the same part of `backward`
    SimTime sum() const { return forward + backward; }
  };
  /// Runs one microbatch through the layer and back.
  Times run();

  /// Runs it as a training run does, with kernels queued and without communication. Returns how
  /// long the device took. Pre: the backend has a timeline.
  SimTime run_queued();

  /// What the last forward left allocated for its backward, counted at the allocator. It includes
  /// the layer's input, but not its output, which is the next layer's input.
  Bytes saved() const;

 private:
  class Rank;
  std::unique_ptr<Rank> rank_;
};

}  // namespace stagecraft
