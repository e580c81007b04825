#pragma once

#include <map>

#include "libsim/model/op_kind.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What a training framework allocates beside the tensors of the op program, and when what it frees
/// can be used again. It concerns the allocator of a rank, never the counted bytes of a plan.
/// Without any value, the framework allocates the op program's tensors and nothing else.
struct FrameworkMemory {
  /// Bytes by kind of op, relative to what the op writes: kept from forward to backward, held until
  /// the pass of the chunk ends (a copy: relative to the largest tensor that the op writes), and
  /// needed only while the op runs.
  std::map<OpKind, double> kept;
  std::map<OpKind, double> held;
  std::map<OpKind, double> temporary;
  /// The gradients of a pass have buffers of their own, in the type of the parameters, until they
  /// are added to the main gradients when the pass has ended.
  bool separates_gradients = false;
  /// Unless the optimizer is sharded: bytes per parameter of what replicas reduce.
  int replica_gradient_bytes = 0;
  /// These are in buckets: the least size of the first, and of all others. 0: one bucket.
  Bytes first_replica_bucket;
  Bytes replica_bucket;
  /// What a tensor group gathers goes into buffers that are never freed.
  bool keeps_gathered = false;
  /// All master weights are one buffer.
  bool joins_master_weights = false;
  /// With a sharded optimizer, the step gathers the updated parameters into temporary copies.
  bool copies_gathered_parameters = false;
  Bytes workspace;  ///< of matrix products, for the thread of each pass; never freed
  /// How many kernels the host is ahead of the accelerator. Until then, what a collective has used
  /// is not free.
  int host_lead = 0;
  double kernels_per_op = 1;
  /// By how many kernels the host gets ahead with each that it launches: what the accelerator takes
  /// for one over what the host takes, less one, and not less than `host_gain`.
  double host_gain = 0;

  friend bool operator==(FrameworkMemory const&, FrameworkMemory const&) = default;
};

}  // namespace stagecraft
