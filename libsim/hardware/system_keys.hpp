#pragma once

#include "libsim/config/key.hpp"
#include "libsim/hardware/constant_values.hpp"
#include "libsim/hardware/measured_device_reader.hpp"
#include "libsim/hardware/system.hpp"

/// The keys of a system file, each with what every audience of it needs: see Key. Their fields are
/// constants with sources.
namespace stagecraft {

template <typename Visitor, OneOf<Accelerator> Section>
void visit_keys(Visitor& keys, Section& accelerator) {
  keys("name", accelerator.name, "The name of the accelerator in outputs.", Need::required);
  keys("peak", accelerator.peak,
       "The dense matrix peak: {bf16: 989.5 TFLOP/s, ...} for fp16, bf16, fp32, fp64, and for "
       "products in TF32, 8 and 4 bits (tf32, fp8, fp4), without structured sparsity.",
       Accepts{"a rate per precision"}, Need::required);
  keys("multiprocessors", accelerator.multiprocessors,
       "The units over which the tiles of a matrix product are spread in waves (SMs, compute "
       "units).",
       count_range, Need::required);
  keys(
      "compute_capability", accelerator.compute_capability,
      "The major number of CUDA's compute capability, by which libraries choose the sizes of their "
      "workspaces; 0: not a CUDA device.",
      up_to_64);
  keys("memory", accelerator.memory, "The capacity of its memory.", Need::required);
  keys("bandwidth", accelerator.bandwidth, "The bandwidth of its memory by the data sheet.",
       Need::required);
  keys("host_link", accelerator.host_link,
       "What copies between its memory and that of the node run over, for runs with offload: "
       "{bandwidth: 50 GB/s, accelerators: 2}, a rate in one direction, and how many accelerators "
       "share it (1).",
       Accepts{"a map, optional"});
}

template <typename Visitor, OneOf<Node> Section>
void visit_keys(Visitor& keys, Section& node) {
  keys("accelerators", node.accelerators,
       "Accelerators per node: those that reach each other over the node's links.", count_range,
       Need::required);
  keys("all_reduce", node.all_reduce,
       "An all-reduce within a node: {latency, bandwidth}, where a ring of n ranks moves 2 (n-1)/n "
       "of the tensor, so that the bandwidth is the bus bandwidth of nccl-tests; or a measured "
       "{table: [[size, time], ...], ranks: n} over the size of the whole tensor, interpolated "
       "linearly and rescaled to other numbers of ranks. The latency is that of the whole call "
       "among all ranks; one over several nodes costs it too, on top of the steps between them.");
  keys("all_gather", node.all_gather,
       "The same of an all-gather, which moves (n-1)/n of the gathered tensor.");
  keys("reduce_scatter", node.reduce_scatter,
       "The same of a reduce-scatter, which moves (n-1)/n of the tensor that is reduced.");
  keys("p2p", node.p2p, "A message between two accelerators of a node, in one direction.",
       Accepts{"{latency, bandwidth}"}, Need::required);
  keys("bus_bandwidth", node.bus_bandwidth,
       "The bus bandwidth that all_reduce_perf of nccl-tests reports for large messages among all "
       "accelerators of a node; it takes precedence over the bandwidth of node.all_reduce and over "
       "node.collectives. All-gathers and reduce-scatters, which sequence parallelism has instead, "
       "keep theirs.",
       Accepts{"a rate, optional"});
  keys("collectives", node.collectives,
       "Measured times, as `stagecraft import nccl-tests` writes them: a column `bytes` of whole "
       "tensors and one for each shape, such as `all_reduce 1x8` for 8 ranks of one node, in "
       "microseconds. The file is beside this one or in configs/systems. It takes precedence over "
       "the rates of this section, which may then be left out. A kind or a number of ranks without "
       "a column is read from the nearest one where a ring moves as many bytes.",
       Accepts{"the name of a CSV file, optional"});
  keys("host_speed", node.host_speed,
       "How fast a thread of the processor is, relative to that of a DGX A100 (EPYC 7742). All "
       "times of section host of the software stack are divided by it.",
       factor_range);
  keys("host_memory", node.host_memory,
       "The memory of the node's processors, which what runs offload must fit into.",
       Accepts{"a size, optional"});
  keys("host_adam", node.host_adam,
       "The parameters per second of which all processors of the node together update optimizer "
       "state in 32 bits. The ranks of a node share it. Only runs with offload need it.",
       NumberRange{.lower = 1e6, .upper = 1e15, .includes_upper = true});
}

template <typename Visitor, OneOf<Network> Section>
void visit_keys(Visitor& keys, Section& network) {
  keys("bandwidth", network.bandwidth,
       "The bandwidth of one network adapter per direction, as the data sheet has it. 400 Gbps is "
       "50 GB/s.",
       Need::required);
  keys("adapters", network.adapters,
       "Adapters per node; without it one per accelerator. The groups of a node run their "
       "collectives at the same time and share them: a group with k ranks per node has k of as "
       "many parts as the node has accelerators.",
       count_range);
  keys("efficiency", network.efficiency,
       "The fraction of that bandwidth that large messages reach.", efficiency_range,
       Need::required);
  keys("latency", network.latency, "Per message, or per ring step of a collective, between nodes.",
       Need::required);
  keys("topology", network.topology,
       "Where the network is narrower than the adapters. {nodes_per_unit: 384, oversubscription: "
       "7}: the links from a unit of 384 nodes (a pod, a scalable unit, the nodes of a leaf "
       "switch) to the rest of the network carry 1/7 of what the adapters of its nodes do. "
       "{leaf_ports: 32, oversubscription: 2} gives the unit by the ports for adapters that a leaf "
       "switch has: all adapters of a node are on one leaf or, with rails: true, each is on a leaf "
       "of its own, so that a unit has 32 nodes. Ranks fill nodes, and nodes fill units, in the "
       "order of their numbers. A ring or tree goes from node to node in that order: groups with "
       "every s-th node, and messages from stages of s nodes, leave a unit of N nodes from s of "
       "them, and take max(1, oversubscription x s/N) times as long. What an all-to-all sends to "
       "other units takes oversubscription times as long. Measured rates and times take "
       "precedence. Not modelled: stages that begin within a unit, copies of DualPipe, whose "
       "groups have two strides, a second border further up, a job whose nodes are scattered, "
       "flows that collide although links have room, the latency of switches; traffic between "
       "rails takes the links of the node at no cost.",
       Accepts{"a map, optional"});
  keys("bus_bandwidth", network.bus_bandwidth,
       "The bus bandwidth that nccl-tests reports for large all-reduces among all accelerators of "
       "several nodes; one rate, or {2: 428 GB/s, 8: 180 GB/s} by the number of nodes. It holds "
       "for groups of whole nodes and takes precedence over bandwidth and efficiency; a file that "
       "gives one of those, adapters or topology does not inherit it.",
       Accepts{"a rate, or rates by nodes, optional"});
  keys("gather_bandwidth", network.gather_bandwidth, "The same of all-gathers.",
       Accepts{"a rate, or rates by nodes, optional"});
  keys("collectives", network.collectives,
       "Measured times over several nodes, as under node; `all_reduce 4x8` is of 8 ranks on each "
       "of 4 nodes. They take precedence for groups with as many ranks on each node; for other "
       "numbers of nodes the nearest is scaled as the rates of this section say.",
       Accepts{"the name of a CSV file, optional"});
}

template <typename Visitor, OneOf<Calibration> Section>
void visit_keys(Visitor& keys, Section& calibration) {
  keys("gemm_efficiency", calibration.gemm_efficiency,
       "The fraction of the peak that the main loop of a matrix product sustains, with the clock "
       "under load.",
       efficiency_range, Need::required);
  keys("low_gemm_efficiency", calibration.low_gemm_efficiency,
       "The same fraction for products in 8 bits, of the peak in 8 bits. Without it: "
       "gemm_efficiency.",
       efficiency_range);
  keys("fp4_gemm_efficiency", calibration.fp4_gemm_efficiency,
       "The same fraction for products in 4 bits, of the peak in 4 bits. Without it: "
       "gemm_efficiency.",
       efficiency_range);
  keys("gemm_small_tile", calibration.gemm_small_tile,
       "The speed of a 128 x 128 tile's main loop relative to that.", efficiency_range,
       Need::required);
  keys("gemm_tile_prologue", calibration.gemm_tile_prologue,
       "What each wave of tiles costs on top of its main loop.", Need::required);
  keys("flash_forward_efficiency", calibration.flash_forward_efficiency,
       "The fraction of the peak that flash attention reaches forward, for its work on half of the "
       "square (causal).",
       efficiency_range, Need::required);
  keys("flash_backward_efficiency", calibration.flash_backward_efficiency, "The same backward.",
       efficiency_range, Need::required);
  keys("latent_flash_forward_efficiency", calibration.latent_flash_forward_efficiency,
       "The same forward of latent attention, whose queries and keys are wider than its values. "
       "Without it: flash_forward_efficiency.",
       efficiency_range);
  keys("latent_flash_backward_efficiency", calibration.latent_flash_backward_efficiency,
       "The same backward. Without it: flash_backward_efficiency.", efficiency_range);
  keys("kernel_launch", calibration.kernel_launch, "Launch and ramp-up of a kernel on the device.",
       Need::required);
  keys("stream_efficiency", calibration.stream_efficiency,
       "The fraction of the memory bandwidth that element-wise kernels reach.", efficiency_range,
       Need::required);
  keys("quantise_efficiency", calibration.quantise_efficiency,
       "The same of kernels that cast to 8 or 4 bits, transpose such tensors or cast them back. "
       "Without it: stream_efficiency.",
       efficiency_range);
  keys("dropout_efficiency", calibration.dropout_efficiency,
       "The same of kernels that draw random numbers.", efficiency_range, Need::required);
  keys("overlap_slowdown", calibration.overlap_slowdown,
       "The fraction of its speed that a matrix product loses while a collective runs within the "
       "node.",
       Between{0, 1}, Need::required);
  keys("network_slowdown", calibration.network_slowdown,
       "The same while a collective runs over the network.", Between{0, 1}, Need::required);
  keys("p2p_synchronisation", calibration.p2p_synchronisation,
       "What an exchange of pipeline messages costs on top of its transfer.", Need::required);
  keys("iteration_overhead", calibration.iteration_overhead,
       "Fixed time per iteration: logging, data, the step of the optimizer's host code.",
       Need::required);
  keys("workspace", calibration.workspace,
       "Workspace for matrix products, per rank. The reserve for everything else is memory.reserve "
       "of the run file.",
       Need::required);
}

template <typename Visitor, OneOf<MeasuredDevice> Section>
void visit_keys(Visitor& keys, Section& measured) {
  keys.value("gemm", measured.gemm, Need::required);
  keys.value("kernels", measured.kernels, Need::required);
}

template <typename Visitor, OneOf<DeviceUse> Section>
void visit_keys(Visitor& keys, Section& device) {
  keys("driver", device.driver,
       "What the driver keeps of the memory. With section device, what a plan's allocator cannot "
       "have follows from it unless memory.reserve is set. A system with another accelerator than "
       "its base does not inherit the section.",
       Accepts{"a size, optional with all of device"}, Need::required);
  keys("context", device.context, "CUDA context of a process, with the kernels of all libraries.",
       Need::required);
  keys("node_channels", device.node_channels,
       "NCCL's channels to a neighbour within the node, in a ring or of a pipeline.", channel_range,
       Need::required);
  keys("network_channels", device.network_channels, "The same of a ring over the network.",
       channel_range, Need::required);
  keys("message_channels", device.message_channels,
       "The same to a pipeline neighbour over the network.", channel_range, Need::required);
  keys("node_buffers", device.node_buffers,
       "Buffers of a channel within the node, sent and received, of all protocols.",
       Need::required);
  keys("network_buffers", device.network_buffers, "The same over the network.", Need::required);
  keys("multicast", device.multicast,
       "Buffers of reductions in the switch (NVLS), for each member of a communicator on the node "
       "if these are more than two; 0 B: not used.",
       Need::required);
}

template <typename Visitor, OneOf<System> Section>
void visit_keys(Visitor& keys, Section& system) {
  if constexpr (requires { Visitor::lists; }) {
    keys.apart("base",
               "The system from which everything that this file does not give is inherited: a name "
               "of configs/systems, or a file relative to this one.",
               Accepts{"a file or a name"});
  }
  keys("name", system.name,
       "The name in outputs. With a base, the default is the name of the file.", Need::required);
  keys(
      "validated", system.validated,
      "Whether predictions for the system as it stands were compared with measurements; otherwise "
      "commands warn. It is not inherited, and no longer holds if an override changes a constant.");
  keys.value("accelerator", system.accelerator, Need::required);
  keys.value("node", system.node, Need::required);
  keys.value("network", system.network, Need::required);
  keys.value("calibration", system.calibration, Need::required);
  keys("measured", system.measured,
       "Kernels that stagecraft-exec calibrate measured one by one; they take precedence over the "
       "constants above.",
       Accepts{"a map, optional"});
  keys.value("device", system.device);
}

}  // namespace stagecraft
