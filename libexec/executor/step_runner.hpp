#pragma once

#include <cstdint>
#include <vector>

#include "libexec/executor/exact_sum.hpp"
#include "libexec/executor/parameter_store.hpp"
#include "libexec/executor/rank_context.hpp"

namespace stagecraft {

/// Runs the ops of a rank that happen once an iteration: gradient reductions and the optimizer.
class StepRunner {
 public:
  StepRunner(RankContext const& context, ParameterStore& parameters);

  void run(Task const& task);
  /// Waits until the data-parallel stream is idle.
  void drain();

  /// Norm of all gradients of the job before clipping; of the last iteration.
  double gradient_norm() const { return gradient_norm_; }
  /// Whether a gradient was infinite, so that the last iteration changed no parameter.
  bool was_skipped() const { return was_skipped_; }

 private:
  /// The collectives of one op that are under way.
  struct Pending {
    std::vector<Communicator::Ticket> tickets;
    GroupId group{};
    std::size_t row = 0;
  };
  void communicate(Op const& op, Task const& task);
  /// Starts the collectives of an op; what they have in common is filled in.
  void start(Op const& op, std::vector<Collective> const& collectives);
  void finish_all();
  void reduce_over_replicas(Op const& op, Task const& task);
  void gather_parameters(Op const& op);
  void sum_replicated_rows(Op const& op);
  void reduce_tied_embedding(Op const& op);
  void agree_on_infinity(Op const& op);
  void sum_norm(Op const& op);
  void measure_norm();
  void clip();
  void update();
  void adjust_loss_scale();
  /// Adds the part of a parameter's gradient that this rank, and no other, has the norm of.
  void add_squares(PlacedParameter const& placed);
  RankContext const& context_;
  ParameterStore& parameters_;
  GroupMembership replicas_;  ///< ranks that hold the same parameters
  std::vector<Pending> pending_;
  float found_infinity_ = 0;
  ExactSum squares_;
  double gradient_norm_ = 0;
  bool was_skipped_ = false;
};

}  // namespace stagecraft
