#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libsim/hardware/collective_tables.hpp"
#include "libsim/hardware/measured_device.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/hardware/sourced.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// An oversubscribed network. Nodes form units, such as the nodes of a leaf switch, a scalable unit
/// or a pod.
///
/// Within a unit, adapters reach each other at their full rate. The links from a unit of N nodes to
/// the rest of the network have the bandwidth of N / oversubscription nodes.
struct NetworkTopology {
  double oversubscription = 1;  ///< bandwidth from the nodes into a unit over that out of it
  int nodes_per_unit = 0;       ///< 0: as leaf_ports and rails say, or one unit of all nodes
  int leaf_ports = 0;           ///< ports of a leaf switch for adapters; 0: not given
  bool rails = false;           ///< with leaf_ports: a node has each adapter on a leaf of its own

  friend bool operator==(NetworkTopology const&, NetworkTopology const&) = default;
};

/// What holds an accelerator's memory beside the framework's allocator, per process. Section
/// `device` of a system.
struct DeviceUse {
  Sourced<Bytes> driver;   ///< memory that no process ever gets
  Sourced<Bytes> context;  ///< CUDA context and the modules of all libraries
  /// Channels of a communicator's collectives: to its neighbours on the node, and over the network.
  Sourced<int> node_channels;
  Sourced<int> network_channels;
  /// Channels to each pipeline neighbour on another node; to one on the node they are
  /// node_channels.
  Sourced<int> message_channels;
  Sourced<Bytes> node_buffers;     ///< per channel, of all protocols, sent and received
  Sourced<Bytes> network_buffers;  ///< likewise
  /// Of in-switch reductions (NVLS), per member on the node, if these are more than two.
  Sourced<Bytes> multicast;

  friend bool operator==(DeviceUse const&, DeviceUse const&) = default;
};

/// How long a collective takes inside one node.
///
/// Either a latency and a bandwidth (time = latency + wire bytes / bandwidth, where a ring moves
/// (n-1)/n of the tensor for an all-gather or reduce-scatter and twice that for an all-reduce), or
/// a measured table for `ranks` ranks, interpolated linearly in size and rescaled to other n.
struct CollectiveCost {
  Seconds latency;
  BytesPerSecond bandwidth;
  std::vector<CollectivePoint> table;  ///< ascending; if empty, latency and bandwidth hold
  int ranks = 0;                       ///< table only: the number of ranks it was measured with

  friend bool operator==(CollectiveCost const&, CollectiveCost const&) = default;
};

/// Dense matrix peaks, without structured sparsity: by precision, and of products in TF32, 8 and 4
/// bits if the accelerator has them. TF32: operands in 32 bits of which products read 19.
struct MatrixPeaks : std::map<Precision, FlopsPerSecond> {
  using map::map;

  std::optional<FlopsPerSecond> tf32{};
  std::optional<FlopsPerSecond> fp8{};
  std::optional<FlopsPerSecond> fp4{};

  friend bool operator==(MatrixPeaks const&, MatrixPeaks const&) = default;
};

/// What connects accelerators to the memory of their node.
struct HostLink {
  BytesPerSecond bandwidth;  ///< of copies from or to pinned memory, in one direction; 0: not given
  int accelerators = 1;      ///< that share it

  friend bool operator==(HostLink const&, HostLink const&) = default;
};

/// One accelerator, by its data sheet. Section `accelerator`.
struct Accelerator {
  std::string name;
  Sourced<MatrixPeaks> peak;
  Sourced<int> multiprocessors;
  Sourced<int> compute_capability;  ///< of CUDA, its major number; 0: not a CUDA device
  Sourced<Bytes> memory;
  Sourced<BytesPerSecond> bandwidth;  ///< bandwidth of its memory
  Sourced<HostLink> host_link;        ///< only for runs that offload

  friend bool operator==(Accelerator const&, Accelerator const&) = default;
};

/// Whether products in 8 bits sum only along the rows of both operands, so that whoever sums along
/// columns needs a transposed copy: all accelerators but those of NVIDIA from Blackwell on.
/// Source: Transformer Engine, nvte_is_non_tn_fp8_gemm_supported.
inline bool sums_along_rows(Accelerator const& accelerator) {
  return accelerator.compute_capability.value < 10;
}

/// What connects the accelerators of one node. Section `node`.
struct Node {
  Sourced<int> accelerators;
  Sourced<CollectiveCost> all_reduce;
  Sourced<CollectiveCost> all_gather;
  Sourced<CollectiveCost> reduce_scatter;
  Sourced<CollectiveCost> p2p;  ///< latency and bandwidth only; one direction
  /// What nccl-tests reports for a large all-reduce among all accelerators; takes precedence over
  /// the bandwidth of all_reduce. 0: not given.
  Sourced<BytesPerSecond> bus_bandwidth;
  /// Times that nccl-tests measured; they take precedence over all of the above but p2p.
  Sourced<MeasuredCollectives> collectives;
  /// How fast a thread of its processor is, relative to the host on which the times of HostCosts
  /// hold.
  Sourced<double> host_speed{1, {}, {}};
  Sourced<Bytes> host_memory;  ///< of the node; 0: not given
  Sourced<double> host_adam;   ///< parameters/s that its processors update in 32 bits; 0: not given

  friend bool operator==(Node const&, Node const&) = default;
};

/// A rate by the number of nodes that take part. A group has the rate of the largest number that is
/// not above its own, or that of the smallest number if all are. Empty: not given.
using RateByNodes = std::map<int, BytesPerSecond>;

/// What connects the nodes. Section `network`.
struct Network {
  Sourced<BytesPerSecond> bandwidth;  ///< bandwidth of one adapter, per direction
  Sourced<int> adapters;              ///< per node; 0: as many as accelerators
  Sourced<double> efficiency;         ///< share of that bandwidth that large messages reach
  Sourced<Seconds> latency;           ///< per message, or per ring step of a collective
  Sourced<NetworkTopology> topology;  ///< default: every adapter reaches every other at its rate
  /// What nccl-tests reports for large messages among all accelerators of several nodes, all-reduce
  /// and all-gather.
  Sourced<RateByNodes> bus_bandwidth;
  Sourced<RateByNodes> gather_bandwidth;
  /// Times that nccl-tests measured; they take precedence if they have as many ranks on each node.
  Sourced<MeasuredCollectives> collectives;

  friend bool operator==(Network const&, Network const&) = default;
};

/// How many adapters of the network there are per accelerator of a node: below 1 if some share one.
inline double adapters_per_accelerator(Node const& node, Network const& network) {
  if (network.adapters.value == 0) return 1;
  return static_cast<double>(network.adapters.value) / node.accelerators.value;
}

/// How many nodes reach each other without crossing the oversubscribed border; 0: all of them.
inline int nodes_per_unit(Node const& node, Network const& network) {
  NetworkTopology const& topology = network.topology.value;
  if (topology.leaf_ports == 0) return topology.nodes_per_unit;
  if (topology.rails) return topology.leaf_ports;
  int const adapters = network.adapters.value;
  return topology.leaf_ports / (adapters == 0 ? node.accelerators.value : adapters);
}

/// Constants of the cost model that no data sheet gives. Section `calibration`.
struct Calibration {
  Sourced<double> gemm_efficiency;            ///< e: main loop, clock included, fraction of peak
  Sourced<double> low_gemm_efficiency;        ///< the same of products in 8 bits; 0: as e
  Sourced<double> fp4_gemm_efficiency;        ///< and of those in 4 bits; 0: as e
  Sourced<double> gemm_small_tile;            ///< a 128x128 tile's main loop, relative to e
  Sourced<Seconds> gemm_tile_prologue;        ///< per wave
  Sourced<double> flash_forward_efficiency;   ///< of its work on half the square, fraction of peak
  Sourced<double> flash_backward_efficiency;  ///< likewise
  /// The same of latent attention, whose queries and keys are wider than its values; 0: as above.
  Sourced<double> latent_flash_forward_efficiency;
  Sourced<double> latent_flash_backward_efficiency;
  Sourced<Seconds> kernel_launch;        ///< launch and ramp, per kernel
  Sourced<double> stream_efficiency;     ///< element-wise kernels, fraction of memory bandwidth
  Sourced<double> quantise_efficiency;   ///< those that cast to 8 or 4 bits, or back; 0: as above
  Sourced<double> dropout_efficiency;    ///< element-wise kernels that draw random numbers
  Sourced<double> overlap_slowdown;      ///< fraction of speed a GEMM loses beside a collective
  Sourced<double> network_slowdown;      ///< the same, beside a collective over the network
  Sourced<Seconds> p2p_synchronisation;  ///< per pipeline exchange
  Sourced<Seconds> iteration_overhead;   ///< fixed time per iteration
  Sourced<Bytes> workspace;              ///< GEMM workspace per rank

  friend bool operator==(Calibration const&, Calibration const&) = default;
};

/// The machine for which a run is predicted, and the software that runs on it. Not part of a plan's
/// fingerprint.
struct System {
  std::string name;
  bool validated = false;  ///< whether its predictions were compared with measurements
  Accelerator accelerator;
  Node node;
  Network network;
  Calibration calibration;
  /// Kernels that were measured one by one; a measured kernel takes precedence over the constants.
  std::optional<MeasuredDevice> measured{};
  /// What else holds the accelerator's memory; absent if nobody has said.
  std::optional<DeviceUse> device{};
  Software software{};  ///< from a file of its own, section `software` of a run file

  friend bool operator==(System const&, System const&) = default;
};

}  // namespace stagecraft
