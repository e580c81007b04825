#pragma once

#include <stdexcept>

#include "libsim/cost/collective_time.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/plan/message_cost.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A system lacks a constant on which the cost of an op depends. The message names the key and what
/// is accepted.
class CostError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The costs of everything in a plan on a system, with its software stack. Times are rounded to
/// picoseconds once per op.
///
/// Kernels that were measured on the device: measured_time(). Other element-wise kernels: launch +
/// traffic / (memory bandwidth x efficiency). GEMMs: gemm_time(). Collectives: level by level of
/// their group, by the nodes of its ranks; ranks fill nodes in the order of their numbers. What the
/// host does: its ranks share node.host_adam, and accelerators of a link its bandwidth.
class CostModel {
 public:
  /// Both must outlive the model. A plan's outline is enough (make_outline).
  CostModel(System const& system, TrainingPlan const& plan);

  /// Duration of an op alone on its rank; 0 for waits and holds.
  /// \throws CostError  if it multiplies matrices of a precision for which the system gives no peak.
  /// \throws std::logic_error  if its cost is not defined.
  SimTime duration(Op const& op) const;

  /// Cost of the hidden state sent from one stage to another, with the gather at its receiver if
  /// messages are scattered.
  MessageCost message_cost(StageId from, StageId to) const;

  /// Millionths of a kernel's speed that are lost while a collective of the tensor group runs
  /// beside it.
  int slowdown_millionths() const;
  /// The same while tokens travel to experts or back: kernels of DeepEP occupy as many
  /// multiprocessors as the run says, and a kernel beside them has the others.
  int dispatch_slowdown_millionths() const;
  /// Whether kernels leave these multiprocessors free in all of a pair of overlapped passes, tokens
  /// travelling or not.
  /// Source: DeepSeek-AI 2024, DeepSeek-V3, arXiv:2412.19437, section 3.2.1; DeepGEMM,
  /// set_num_sms().
  bool leaves_multiprocessors() const;
  /// The same beside a gradient reduction over the replicas: over the network it takes fewer
  /// multiprocessors and less memory bandwidth.
  int data_parallel_slowdown_millionths() const;
  /// Whether an op of a pass is a collective over the links that gradient reductions use: both
  /// leave their nodes, or both stay within one.
  bool shares_links_with_reductions(Op const& op) const;
  SimTime iteration_overhead() const;
  /// Times of a product that runs while its input is gathered: for the rank's own shard of the
  /// input, which need not wait for the gather, and for the rest.
  struct SplitProduct {
    SimTime own{0};
    SimTime rest{0};
  };
  /// Pre: `product` multiplies the output of `gather`, by rows.
  SplitProduct split_product(Op const& gather, Op const& product) const;
  TensorTraffic const& tensor_traffic() const { return system_.software.tensor; }
  /// The host time that issuing an op of a block takes. It is 0 for waits and holds.
  SimTime host_time(Op const& op) const;
  /// The host time that a pass of a chunk takes beside its ops.
  SimTime host_time_of_pass() const;
  Bytes workspace() const { return system_.calibration.workspace.value; }

 private:
  /// Rounds a duration, after it has applied the stack's factor. Every duration passes through it
  /// once.
  SimTime rounded(double seconds) const;
  Seconds collective_seconds(OpKind kind, GroupId group, Bytes payload) const;
  /// The time of one rank's turn in a prefix_reduce.
  Seconds prefix_seconds(Op const& op) const;
  /// The time of the exchange of a dispatcher that sends a token once to each node.
  Seconds unique_seconds(Op const& op, ExchangeAttributes const& exchange) const;
  /// Time of a collective that moves gradients or parameters between replicas.
  Seconds replica_seconds(Op const& op) const;
  /// Time of an op of the host, or of its link.
  Seconds host_seconds(Op const& op) const;
  /// Time of a compute kernel by the system's constants.
  Seconds kernel_seconds(Op const& op) const;
  /// What the stack's kernels take relative to it.
  double time_factor(OpKind kind) const;
  Seconds product_seconds(Op const& op, GemmAttributes const& gemm) const;
  Seconds flash_seconds(Op const& op) const;
  /// Time of a kernel that is as fast as its operands can be read and written.
  Seconds sweep_seconds(Op const& op) const;
  FlopsPerSecond peak_of(ElementType type) const;
  /// Bytes that the stack's own kernels move, relative to the op's traffic.
  double traffic_factor(Op const& op) const;
  bool has_fused_softmax(Op const& op) const;
  /// Whether a kernel fills the op's output before it is written.
  bool fills_output(Op const& op) const;
  /// What a host of speed 1 takes to launch the kernels of a computation.
  double launch_seconds(Op const& op) const;
  /// What it takes for the calls of modules and functions around it.
  double call_seconds(Op const& op) const;
  /// Whether the members of a level share a node, the first of them being the first of its node.
  bool is_in_one_node(LevelPlacement const& level) const;
  NodeSpread spread_of(LevelPlacement const& level) const;
  bool crosses_nodes(GroupId group) const;

  System const& system_;
  TrainingPlan const& plan_;
};

}  // namespace stagecraft
