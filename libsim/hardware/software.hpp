#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/sourced.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/program/op_kind.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What the host thread of a rank spends to issue its work, on a host of speed 1
/// (Node::host_speed). An accelerator that is done with what was issued waits for it. Section
/// `host`.
struct HostCosts {
  Sourced<Seconds> kernel;  ///< per kernel that is neither a matrix product nor a collective
  Sourced<Seconds> gemm;    ///< per matrix product
  /// The kernels that the stack launches for an op of a kind, if it is not one.
  Sourced<std::map<OpKind, double>> launches;
  Sourced<Seconds> call;  ///< per call of a module or of a function with a backward of its own
  /// The calls that the stack makes for an op of a kind, if it makes any. Products without a
  /// parameter, those of a batch, are no modules and have none.
  Sourced<std::map<OpKind, double>> calls;
  Sourced<Seconds> collective;  ///< per collective of a block
  Sourced<double> backward{
      1, {}, {}};  ///< an op of the backward pass, relative to one of the forward pass
  Sourced<Seconds> collective_per_rank;         ///< on top, per rank of its group, within a node
  Sourced<Seconds> collective_per_remote_rank;  ///< likewise of a group that crosses nodes
  Sourced<Seconds> unfused_softmax;             ///< on top, per softmax that has no fused kernel
  /// Per pass of a chunk, beside its ops. It is hidden as far as the accelerator is busy longer.
  Sourced<Seconds> pass;
  Sourced<Seconds> message;    ///< per message between stages, on top of the system's
  Sourced<Seconds> iteration;  ///< per iteration, on top of the system's
  /// Kernels that the step launches for each parameter tensor of a rank.
  Sourced<double> step_launches;

  friend bool operator==(HostCosts const&, HostCosts const&) = default;
};

/// Factors by the least major number of CUDA's compute capability for which they hold; 0 is of all
/// devices. Where none holds it is 1.
using FactorByCapability = std::map<int, double>;

/// How the stack's kernels differ from those that the op program describes, one fused kernel per
/// op. Section `kernels`.
struct KernelUse {
  /// What the stack's kernels take by kind of op, relative to what the system's constants give.
  Sourced<std::map<OpKind, FactorByCapability>> time;
  /// The bytes that the stack's kernels move by kind of op, relative to those of one fused kernel.
  Sourced<std::map<OpKind, double>> traffic;
  /// The fused softmax runs only if this divides the number of score matrices of a rank; 0: always.
  Sourced<int> fused_softmax_multiple;
  /// Bytes of the unfused softmax, relative to the fused one.
  Sourced<double> unfused_softmax_traffic{1, {}, {}};
  /// Bytes moved per element when a microbatch's weight gradient is added to the main gradient by
  /// kernels of their own; 0: the matrix product accumulates.
  Sourced<int> accumulation_bytes;
  /// Whether a kernel fills the output of a product or of attention before it is written, in
  /// deterministic runs.
  Sourced<bool> fills_outputs;
  Sourced<bool> early_stop;  ///< default of recompute.early_stop
  /// The library that quantises, in runs that `plan` and `explain` make.
  Sourced<LowLibrary> low_precision;

  friend bool operator==(KernelUse const&, KernelUse const&) = default;
};

/// How gradients and parameters travel between replicas. Section `replicas`.
struct ReplicaTraffic {
  /// The kinds of sharding that the framework has, as far as they are modelled: what `plan`
  /// searches.
  Sourced<std::vector<ShardingKind>> sharding{
      {ShardingKind::none, ShardingKind::distributed_optimizer}, {}, {}};
  Sourced<UnitSync> sync;            ///< of sharded units, in the plans of `plan`
  Sourced<GradientOverlap> overlap;  ///< default of parallel.overlap_gradients
  Sourced<int> gradient_bytes;       ///< per element on the wire; 0: those of the main gradient
  /// With the distributed optimizer, gradients are all-reduced instead of reduce-scattered.
  Sourced<bool> reduces_whole;
  Sourced<Bytes> bucket;           ///< a reduction is cut into calls of so many bytes; 0: one call
  Sourced<Seconds> call;           ///< per call, on top of its transfer
  Sourced<Seconds> call_per_rank;  ///< likewise, per rank of the group
  /// Bytes copied before and after the all-gather, per byte of parameters.
  Sourced<int> gather_traffic;
  /// Replaces calibration.network_slowdown beside collectives of units that leave the node; 0: does
  /// not.
  Sourced<double> unit_slowdown;
  Sourced<Seconds> gather_piece;  ///< per parameter tensor and rank of the all-gather: its copy

  friend bool operator==(ReplicaTraffic const&, ReplicaTraffic const&) = default;
};

/// How collectives of the tensor group and computation overlap. Section `tensor`.
struct TensorTraffic {
  /// Collectives of the backward pass run beside the gradients' products; else the compute stream
  /// stands still for each of them.
  Sourced<bool> overlaps_backward{true, {}, {}};
  /// While the input of a column-parallel product is gathered, the product of the own shard runs.
  Sourced<bool> own_shard_first;

  friend bool operator==(TensorTraffic const&, TensorTraffic const&) = default;
};

/// Bytes by the least major number of CUDA's compute capability for which they hold; 0 is of all
/// devices. Empty: none.
using BytesByCapability = std::map<int, Bytes>;

/// What the stack allocates beside the tensors of the op program: FrameworkMemory with sources.
/// Section `memory`.
struct MemoryUse {
  Sourced<std::map<OpKind, double>> kept;
  Sourced<std::map<OpKind, double>> held;
  Sourced<std::map<OpKind, double>> held_of_prediction;
  Sourced<bool> transposed_attention;
  Sourced<std::map<OpKind, double>> temporary;
  Sourced<bool> separate_gradients;
  Sourced<bool> passing_gradients;
  Sourced<bool> widened_gradients;
  Sourced<bool> foreach_step;
  Sourced<bool> freed_gradients;
  Sourced<int> replica_gradient_bytes;
  Sourced<Bytes> first_replica_bucket;
  Sourced<Bytes> replica_bucket;
  Sourced<bool> kept_inputs;
  Sourced<bool> kept_root;
  Sourced<bool> kept_gathers;
  Sourced<std::map<OpKind, double>> global_buffer;
  Sourced<bool> joined_master_weights;
  Sourced<bool> sharded_parameters;
  Sourced<bool> gather_copies;
  Sourced<BytesByCapability> workspace;
  Sourced<BytesByCapability> shared_workspace;
  Sourced<BytesByCapability> grouped_workspace;
  Sourced<BytesByCapability> router_workspace;
  Sourced<int> host_lead;
  Sourced<bool> waits_after_sends;
  Sourced<bool> waits_after_passes;
  Sourced<bool> late_connections;
  Sourced<double> kernels_per_op{1, {}, {}};
  Sourced<double> host_gain;
  Sourced<double> factor{1, {}, {}};

  friend bool operator==(MemoryUse const&, MemoryUse const&) = default;
};

/// The communicators that the framework makes beside those in which the plan's collectives run, and
/// what its version of NCCL holds for each. Section `communicators`.
struct CommunicatorUse {
  /// How many join all ranks and are shared with no group; 0: one, which groups of the same ranks
  /// share.
  Sourced<int> of_all;
  Sourced<bool> of_node;    ///< one joins the ranks of each node
  Sourced<bool> of_stages;  ///< one joins the stages with the same part of layers and data
  /// Trees are connected with the rings, not when they are first used: three or more ranks of a
  /// node have buffers for two neighbours each.
  Sourced<bool> trees;
  /// In place of the system's DeviceUse::multicast; 0: that one.
  Sourced<Bytes> multicast;
  /// The number of channels of the tree between nodes that carries on reductions in the switch. It
  /// is connected when the communicator is made; 0 if it is connected only when it is first used.
  Sourced<int> multicast_channels;

  friend bool operator==(CommunicatorUse const&, CommunicatorUse const&) = default;
};

/// The training framework of a run, as far as times and memory depend on it. Only the defaults that
/// it gives to keys of the run (overlap, buckets) reach a plan and its fingerprint. A constant
/// without a source was not given; its value is then neutral.
struct Software {
  std::string name;
  /// Every duration is multiplied by this factor, which one measured iteration of a stack gives.
  Sourced<double> factor{1, {}, {}};
  HostCosts host;
  KernelUse kernels;
  ReplicaTraffic replicas;
  TensorTraffic tensor;
  MemoryUse memory;
  CommunicatorUse communicators;

  friend bool operator==(Software const&, Software const&) = default;
};

/// The memory of the stack on a device of this compute capability (its major number), as the
/// allocator of a rank sees it.
FrameworkMemory framework_memory(Software const& software, int compute_capability = 0);

/// Whether a run fits is decided by its ranks' allocators: the stack says what it allocates beside
/// the op program. Otherwise counted bytes decide, and the reserve stands for all else.
bool decides_by_allocator(Software const& software);

/// What `fit` of one run calls a stack: the name of the one that it began with, and this.
inline constexpr std::string_view fitted_ending = "-fitted";

/// How `software.factor` and `software.memory.factor` say that they were fitted to one run.
inline constexpr std::string_view one_measurement = "on one measurement of ";

/// The stack whose measured runs tell about this one: itself, or the one that it was fitted from.
inline std::string_view described_stack(Software const& software) {
  std::string_view name = software.name;
  if (name.ends_with(fitted_ending)) name.remove_suffix(fitted_ending.size());
  return name;
}

inline bool is_fitted_to_one_run(Sourced<double> const& factor) {
  return factor.fitted.starts_with(one_measurement);
}

}  // namespace stagecraft
