#pragma once

#include <cstdint>
#include <map>

#include "libsim/program/op_kind.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What a training framework allocates beside the tensors of the op program, and when memory that
/// it frees can be used again. It affects the allocator of a rank, never the counted bytes of a
/// plan. By default, the framework allocates the op program's tensors and nothing else.
struct FrameworkMemory {
  /// Bytes by kind of op. kept: from forward to backward; held: until the pass of the chunk ends
  /// (copies: relative to the largest tensor that the op writes); temporary: only while the op
  /// runs, relative to all that it writes.
  std::map<OpKind, double> kept;
  std::map<OpKind, double> held;
  /// As `held`, for the head's ops on the last module of multi-token prediction.
  std::map<OpKind, double> held_of_prediction;
  std::map<OpKind, double> temporary;
  /// Whether FlashAttention's output is kept twice. stack_memory() adds it to `kept` if the stack
  /// uses that kernel.
  bool transposes_attention = false;
  /// The gradients of a pass have buffers of their own, in the type of the parameters, until they
  /// are added to the main gradients when the pass has ended.
  bool separates_gradients = false;
  /// Otherwise: gradients of a pass that no matrix product accumulates (all of them, if main
  /// gradients are narrower than fp32) have a tensor in the type of the parameters until they have
  /// been added.
  bool passes_gradients = false;
  /// The step works on fp32 copies of narrower main gradients, which live until the next iteration.
  bool widens_gradients = false;
  /// The step holds a square root of each second moment, all of them at once.
  bool has_foreach_step = false;
  /// Gradients that the passes of an iteration make anew are freed at the end of the step, not when
  /// the next iteration begins.
  bool frees_gradients = false;
  /// Unless the optimizer is sharded: bytes per parameter of the gradients that replicas reduce.
  int replica_gradient_bytes = 0;
  /// The buckets of these: the least size of the first bucket, and of all others. 0: one bucket.
  Bytes first_replica_bucket;
  Bytes replica_bucket;
  /// What a chunk has received last, and its gradient, exist until the chunk's next forward, also
  /// between two iterations.
  bool keeps_inputs = false;
  /// The buffer of the gathered parameters that sharded units leave to the root exists between two
  /// iterations, too, if the root keeps them for all microbatches.
  bool keeps_root = false;
  /// Whether tensors that a tensor group gathers go into buffers that are never freed.
  bool keeps_gathered = false;
  /// Bytes by kind of op, relative to the largest tensor that the op writes, of one buffer that
  /// serves all these ops and is never freed. A gather of the tensor group writes into it, unless
  /// it gathers gradients.
  std::map<OpKind, double> global_buffer;
  /// Whether all master weights are one buffer.
  bool joins_master_weights = false;
  /// If the optimizer is sharded: whether each parameter is cut into shards, or else each
  /// sharded run of parameters (sharded_runs.hpp).
  bool shards_parameters = false;
  /// With a sharded optimizer, the step gathers the updated parameters into temporary copies.
  bool copies_gathered_parameters = false;
  /// For matrix products, never freed: one per pass's thread, one for both threads together, and,
  /// from the first product of experts in groups on, one for those.
  Bytes workspace;
  Bytes shared_workspace;
  Bytes grouped_workspace;
  Bytes router_workspace;  ///< as shared_workspace, of models with a router if there is none
  /// The number of kernels by which the host may be ahead of the accelerator. Memory that a
  /// collective has used is not free until the accelerator has caught up. The host waits for the
  /// accelerator before it goes on with what it has received.
  int host_lead = 0;
  /// The host also waits when it has sent something to another stage.
  bool waits_after_sends = false;
  bool waits_after_passes = false;  ///< the host also waits when a pass of a chunk has ended
  /// Hosts connect two stages when these first exchange a message. With three stages or more, the
  /// accelerator of the first stage then stands still in its second message, until the second stage
  /// has connected to the third; the host of the first goes on until it waits.
  bool connects_late = false;
  double kernels_per_op = 1;
  /// The number of kernels by which the host gets ahead with each kernel that it launches: the
  /// accelerator's time for one over the host's, less one, and not less than `host_gain`.
  double host_gain = 0;
  /// All that the allocator holds is multiplied by it.
  double factor = 1;

  friend bool operator==(FrameworkMemory const&, FrameworkMemory const&) = default;
};

/// What an allocator may hold by the sizes of the op program, if it really holds `factor` times as
/// much, on a device with so much room.
inline Bytes room_without_factor(Bytes room, double factor) {
  if (factor == 1) return room;
  return Bytes{static_cast<std::int64_t>(static_cast<double>(room.count()) / factor)};
}

}  // namespace stagecraft
