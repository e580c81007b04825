#pragma once

#include <cmath>
#include <vector>

#include "libexec/executor/op_runner.hpp"
#include "libexec/executor/parameter_store.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libexec/kernels/cpu/exact_sum.hpp"

namespace stagecraft {

/// Runs the ops of the step, on the ranges of the parameters that they name. Owns the flag of
/// overflow and the sum of squares, which are those of the last step until the next one begins.
class StepRunner {
 public:
  StepRunner(RankContext const& context, ParameterStore const& parameters);

  /// Called before the first op of an iteration, and after the last. Before the first iteration, it
  /// makes the quantised copies of weights, as the end of a step does for the next.
  void begin_iteration();
  void end_iteration();

  void run(Task const& task);
  /// Waits until the data-parallel stream is idle.
  void drain() { ops_.finish(); }

  /// Norm of all gradients of the job before clipping; of the last iteration.
  double gradient_norm() const { return std::sqrt(squares_.value()); }
  /// Whether a gradient was infinite, so that the last iteration changed no parameter.
  bool was_skipped() const { return overflow_ != 0; }

 private:
  void launch(StepOp const& op);
  /// Makes the copies of all weights that the rank keeps quantised, each by a call of its own.
  void quantise_weights();
  KernelCall call_of(StepOp const& op, ParameterRange const& range, OwnedRun const& run);
  /// A tensor without an element per parameter.
  FlatRange number(TensorId tensor);
  /// What a collective moves.
  std::vector<FlatRange> ranges_of(StepOp const& op) const;
  std::vector<Collective> collectives_of(StepOp const& op);

  RankContext const& context_;
  ParameterStore const& parameters_;
  OpRunner ops_;
  float overflow_ = 0;
  ExactSum squares_;
  float overflow_so_far_ = 0;
  ExactSum squares_so_far_;
  bool has_copies_ = false;  ///< whether weights have been quantised
};

}  // namespace stagecraft
