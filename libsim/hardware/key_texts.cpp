#include "libsim/hardware/key_texts.hpp"

#include <array>

namespace stagecraft {
namespace {

constexpr std::array keys_of_system{
    KeyText{"base", "a file or a name",
            "The system from which everything that this file does not give is inherited: a "
            "name of configs/systems, or a file relative to this one."},
    KeyText{"name", "text",
            "The name in outputs. With a base, the default is the name of the file."},
    KeyText{"validated", "true or false",
            "Whether predictions for the system as it stands were compared with "
            "measurements; otherwise commands warn. It is not inherited, and no longer "
            "holds if an override changes a constant."},
    KeyText{"accelerator.name", "text", "The name of the accelerator in outputs."},
    KeyText{"accelerator.peak", "a rate per precision",
            "The dense matrix peak: {bf16: 989.5 TFLOP/s, ...} for fp16, bf16, fp32, fp64, "
            "without structured sparsity."},
    KeyText{"accelerator.multiprocessors", "a whole number",
            "The units over which the tiles of a matrix product are spread in waves (SMs, "
            "compute units)."},
    KeyText{"accelerator.memory", "a size", "The capacity of its memory."},
    KeyText{"accelerator.bandwidth", "a rate", "The bandwidth of its memory by the data sheet."},
    KeyText{"node.accelerators", "a whole number",
            "Accelerators per node: those that reach each other over the node's links."},
    KeyText{"node.all_reduce", "a collective",
            "An all-reduce within a node: {latency, bandwidth}, where a ring of n ranks "
            "moves 2 (n-1)/n of the tensor, so that the bandwidth is the bus bandwidth of "
            "nccl-tests; or a measured {table: [[size, time], ...], ranks: n} over the size "
            "of the whole tensor, interpolated linearly and rescaled to other numbers of "
            "ranks. The latency is that of the whole call among all ranks; one over several "
            "nodes costs it too, on top of the steps between them."},
    KeyText{"node.all_gather", "a collective",
            "The same of an all-gather, which moves (n-1)/n of the gathered tensor."},
    KeyText{"node.reduce_scatter", "a collective",
            "The same of a reduce-scatter, which moves (n-1)/n of the tensor that is "
            "reduced."},
    KeyText{"node.p2p", "{latency, bandwidth}",
            "A message between two accelerators of a node, in one direction."},
    KeyText{"node.bus_bandwidth", "a rate, optional",
            "The bus bandwidth that all_reduce_perf of nccl-tests reports for large "
            "messages among all accelerators of a node; it takes precedence over the "
            "bandwidth of node.all_reduce and over node.collectives. All-gathers and "
            "reduce-scatters, which sequence parallelism has instead, keep theirs."},
    KeyText{"node.collectives", "the name of a CSV file, optional",
            "Measured times, as `stagecraft import nccl-tests` writes them: a column `bytes` of "
            "whole tensors and one for each shape, such as `all_reduce 1x8` for 8 ranks of one "
            "node, in microseconds. The file is beside this one or in configs/systems. It takes "
            "precedence over the rates of this section, which may then be left out. A kind or a "
            "number of ranks without a column is read from the nearest one where a ring moves as "
            "many bytes."},
    KeyText{"network.bandwidth", "a rate",
            "The bandwidth of one network adapter per direction, as the data sheet has it. "
            "400 Gbps is 50 GB/s."},
    KeyText{"network.adapters", "a whole number, optional",
            "Adapters per node; without it one per accelerator. The groups of a node run "
            "their collectives at the same time and share them: a group with k ranks per "
            "node has k of as many parts as the node has accelerators."},
    KeyText{"network.efficiency", "0.001 to 1",
            "The fraction of that bandwidth that large messages reach."},
    KeyText{"network.latency", "a time",
            "Per message, or per ring step of a collective, between nodes."},
    KeyText{"network.topology", "a map, optional",
            "Where the network is narrower than the adapters. {nodes_per_unit: 384, "
            "oversubscription: 7}: the links from a unit of 384 nodes (a pod, a scalable unit, the "
            "nodes of a leaf switch) to the rest of the network carry 1/7 of what the adapters of "
            "its nodes do. {leaf_ports: 32, oversubscription: 2} gives the unit by the ports for "
            "adapters that a leaf switch has: all adapters of a node are on one leaf or, with "
            "rails: true, each is on a leaf of its own, so that a unit has 32 nodes. Ranks fill "
            "nodes, and nodes fill units, in the order of their numbers. A ring or tree goes from "
            "node to node in that order: groups with every s-th node, and messages from stages of "
            "s nodes, leave a unit of N nodes from s of them, and take max(1, oversubscription x "
            "s/N) times as long. What an all-to-all sends to other units takes oversubscription "
            "times as long. Measured rates and times take precedence. Not modelled: stages that "
            "begin within a unit, copies of DualPipe, whose groups have two strides, a second "
            "border further up, a job whose nodes are scattered, flows that collide although links "
            "have room, the latency of switches; traffic between rails takes the links of the node "
            "at no cost."},
    KeyText{"network.bus_bandwidth", "a rate, or rates by nodes, optional",
            "The bus bandwidth that nccl-tests reports for large all-reduces among all "
            "accelerators of several nodes; one rate, or {2: 428 GB/s, 8: 180 GB/s} by the "
            "number of nodes. It holds for groups of whole nodes and takes precedence over "
            "bandwidth and efficiency; a file that gives one of those, adapters or topology "
            "does not inherit it."},
    KeyText{"network.gather_bandwidth", "a rate, or rates by nodes, optional",
            "The same of all-gathers."},
    KeyText{"network.collectives", "the name of a CSV file, optional",
            "Measured times over several nodes, as under node; `all_reduce 4x8` is of 8 ranks on "
            "each of 4 nodes. They take precedence for groups with as many ranks on each node; "
            "for other numbers of nodes the nearest is scaled as the rates of this section say."},
    KeyText{"calibration.gemm_efficiency", "0.001 to 1",
            "The fraction of the peak that the main loop of a matrix product sustains, with "
            "the clock under load."},
    KeyText{"calibration.gemm_small_tile", "0.001 to 1",
            "The speed of a 128 x 128 tile's main loop relative to that."},
    KeyText{"calibration.gemm_tile_prologue", "a time",
            "What each wave of tiles costs on top of its main loop."},
    KeyText{"calibration.flash_forward_efficiency", "0.001 to 1",
            "The fraction of the peak that flash attention reaches forward, for its work on "
            "half of the square (causal)."},
    KeyText{"calibration.flash_backward_efficiency", "0.001 to 1", "The same backward."},
    KeyText{"calibration.kernel_launch", "a time", "Launch and ramp-up of a kernel on the device."},
    KeyText{"calibration.stream_efficiency", "0.001 to 1",
            "The fraction of the memory bandwidth that element-wise kernels reach."},
    KeyText{"calibration.dropout_efficiency", "0.001 to 1",
            "The same of kernels that draw random numbers."},
    KeyText{"calibration.overlap_slowdown", "0 to below 1",
            "The fraction of its speed that a matrix product loses while a collective runs "
            "within the node."},
    KeyText{"calibration.network_slowdown", "0 to below 1",
            "The same while a collective runs over the network."},
    KeyText{"calibration.p2p_synchronisation", "a time",
            "What an exchange of pipeline messages costs on top of its transfer."},
    KeyText{"calibration.iteration_overhead", "a time",
            "Fixed time per iteration: logging, data, the step of the optimizer's host "
            "code."},
    KeyText{"calibration.workspace", "a size",
            "Workspace for matrix products, per rank. The reserve for everything else is "
            "memory.reserve of the run file."},
    KeyText{"measured", "a map, optional",
            "Kernels that stagecraft-exec calibrate measured one by one; they take "
            "precedence over the constants above."},
    KeyText{"device.driver", "a size, optional with all of device",
            "What the driver keeps of the memory. With section device, what a plan's allocator "
            "cannot have follows from it unless memory.reserve is set. A system with another "
            "accelerator than its base does not inherit the section."},
    KeyText{"device.context", "a size",
            "CUDA context of a process, with the kernels of all libraries."},
    KeyText{"device.node_channels", "0 to 1024",
            "NCCL's channels to a neighbour within the node, in a ring or of a pipeline."},
    KeyText{"device.network_channels", "0 to 1024", "The same of a ring over the network."},
    KeyText{"device.message_channels", "0 to 1024",
            "The same to a pipeline neighbour over the network."},
    KeyText{"device.node_buffers", "a size",
            "Buffers of a channel within the node, sent and received, of all protocols."},
    KeyText{"device.network_buffers", "a size", "The same over the network."},
    KeyText{"device.multicast", "a size",
            "Buffers of reductions in the switch (NVLS), for each member of a communicator on "
            "the node if these are more than two; 0 B: not used."}};

constexpr std::array keys_of_software{
    KeyText{"base", "a file or a name",
            "The stack from which everything that this file does not give is inherited: a "
            "name of configs/software, or a file relative to this one."},
    KeyText{"name", "text",
            "The name in outputs. With a base, the default is the name of the file."},
    KeyText{"factor", "a number",
            "Every duration is multiplied by it; `stagecraft fit RUN.yaml --measured TIME` "
            "fits it."},
    KeyText{"host.kernel", "a time",
            "In which the host thread issues one op of a block that is neither a matrix "
            "product nor a collective. Where the accelerator is done sooner it waits: a "
            "pass of a block takes the longer of the two."},
    KeyText{"host.gemm", "a time", "The same of a matrix product."},
    KeyText{"host.collective", "a time", "The same of a collective."},
    KeyText{"host.backward", "a number",
            "The same of an op of the backward pass, relative to one of the forward pass."},
    KeyText{"host.collective_per_rank", "a time",
            "On top, for each rank of the group, for groups within a node: what checking "
            "every collective costs."},
    KeyText{"host.collective_per_remote_rank", "a time", "The same for groups that cross nodes."},
    KeyText{"host.unfused_softmax", "a time",
            "On top, per softmax for which there is no fused kernel (see "
            "kernels.fused_softmax_multiple)."},
    KeyText{"host.message", "a time",
            "Per message between stages, on top of calibration.p2p_synchronisation."},
    KeyText{"host.iteration", "a time", "Per iteration, on top of calibration.iteration_overhead."},
    KeyText{"kernels.traffic", "factors by kind of op",
            "Bytes that the stack's kernels move, relative to one fused kernel: {swiglu: "
            "1.667}."},
    KeyText{"kernels.fused_softmax_multiple", "0 to 64",
            "Softmax is fused where this divides the number of score matrices of a rank "
            "(microbatch times heads over t); 0: always."},
    KeyText{"kernels.unfused_softmax_traffic", "a number",
            "Bytes that softmax moves where it is not fused, relative to the fused one."},
    KeyText{"kernels.accumulation_bytes", "0 to 64",
            "Bytes moved per element when kernels of their own add a microbatch's weight "
            "gradient to the main gradient; 0: the matrix product adds it."},
    KeyText{"replicas.overlap", "never, unless_sharded, always",
            "Whether gradients are reduced beside the last microbatch's backward "
            "(unless_sharded: not with the distributed optimizer); the default of "
            "parallel.overlap_gradients."},
    KeyText{"replicas.gradient_bytes", "0 to 64",
            "Bytes of a gradient on the wire; 0: those of the main gradient."},
    KeyText{"replicas.reduces_whole", "true or false",
            "Whether gradients are all-reduced instead of reduce-scattered with the "
            "distributed optimizer."},
    KeyText{"replicas.bucket", "a size",
            "With overlap: bytes per call of the reduction, the default of "
            "parallel.gradient_bucket; 0 B: one call."},
    KeyText{"replicas.call", "a time",
            "What a call of the reduction costs on top of its transfer."},
    KeyText{"replicas.call_per_rank", "a time", "On top, per rank of the group."},
    KeyText{"replicas.gather_traffic", "0 to 64",
            "Bytes that copies before and after the all-gather of parameters move, per byte of the "
            "parameters; 0: it works in place."},
    KeyText{"replicas.gather_piece", "a time",
            "What each parameter tensor costs in the all-gather, per rank of the group: the part "
            "of each rank is copied by itself."},
    KeyText{"tensor.overlaps_backward", "true or false",
            "Whether collectives of the backward pass run beside the products of the "
            "gradients."},
    KeyText{"tensor.own_shard_first", "true or false",
            "Whether the product of the own shard runs while the others' are gathered."},
    KeyText{"memory.kept", "factors by kind of op",
            "What the stack keeps from forward to backward beside the op program's tensors, in "
            "bytes relative to what the op writes: {swiglu: 1}. Reserved bytes follow all keys of "
            "this section, counted bytes none."},
    KeyText{"memory.held", "factors by kind of op",
            "The same until the pass of a chunk ends, relative to the largest tensor that the op "
            "writes."},
    KeyText{"memory.held_of_prediction", "factors by kind of op",
            "As held, for the head's ops on the last module of multi-token prediction."},
    KeyText{"memory.temporary", "factors by kind of op", "The same while the op runs."},
    KeyText{"memory.separate_gradients", "true or false",
            "Whether the weight gradients of a microbatch have buffers of their own, in the type "
            "of the parameters, until they are added to the main gradients at the end of its "
            "backward pass."},
    KeyText{"memory.passing_gradients", "true or false",
            "Without separate_gradients: whether weight gradients that no matrix product "
            "accumulates (all, if main gradients are narrower than fp32) have a tensor in the type "
            "of the parameters until it has been added to the main gradient."},
    KeyText{"memory.widened_gradients", "true or false",
            "Whether the optimizer step works on fp32 copies of narrower main gradients, which "
            "live until the next iteration begins; not if moments are as narrow."},
    KeyText{"memory.replica_gradient_bytes", "0 to 64",
            "Bytes per parameter of the buckets that replicas reduce, where these are no part of "
            "the main gradients; not with the distributed optimizer."},
    KeyText{"memory.first_replica_bucket", "a size",
            "The first of these buckets is full with so many bytes; 0 B: it takes everything."},
    KeyText{"memory.replica_bucket", "a size", "The same of every other bucket."},
    KeyText{"memory.kept_gathers", "true or false",
            "Whether gathered activations, and gathered gradients, go into one buffer each that "
            "is never freed."},
    KeyText{"memory.global_buffer", "factors by kind of op",
            "One buffer, never freed, that serves all ops of these kinds; it is as large as its "
            "largest use, in bytes relative to the largest tensor that the op writes. What is "
            "gathered is gathered into it, but gradients that enter row-parallel products have "
            "tensors of their own."},
    KeyText{"memory.joined_master_weights", "true or false",
            "Whether all master weights of a rank are one buffer."},
    KeyText{"memory.sharded_parameters", "true or false",
            "Whether the distributed optimizer cuts each parameter into shards, so that moments "
            "are tensors of one parameter each; else it cuts the buckets of gradients, and each "
            "moment has a tensor per bucket."},
    KeyText{"memory.gather_copies", "true or false",
            "Whether the distributed optimizer gathers the parameters through copies: of the own "
            "shard, of every replica's, and of all together."},
    KeyText{"memory.workspace", "a size",
            "Workspace of matrix products that the allocator serves, once for each pass's thread."},
    KeyText{"memory.host_lead", "0 to 1000000",
            "How many kernels the host is ahead of the accelerator. What a collective has used "
            "can be allocated again only after so many kernels; 0: at once. A host that receives a "
            "message waits for the accelerator first."},
    KeyText{"memory.waits_after_sends", "true or false",
            "With host_lead: whether the host waits for the accelerator after it has sent to "
            "another stage, too."},
    KeyText{"memory.waits_after_passes", "true or false", "The same after each pass of a chunk."},
    KeyText{"memory.late_connections", "true or false",
            "With host_lead: whether hosts connect two stages when these first exchange a message. "
            "With three stages or more, the accelerator of the first one then stands still in its "
            "second message of all, until the next stage has connected to the one behind it, and "
            "the host goes on until it waits. Without effect with waits_after_sends."},
    KeyText{"memory.kernels_per_op", "a number",
            "With host_lead: how many kernels the stack launches for one op of the op program."},
    KeyText{"memory.host_gain", "0 to 1000",
            "With host_lead: by how many kernels the host gets ahead, at least, with each that it "
            "launches. Where the accelerator is slower, its time over the host's less one."},
    KeyText{"communicators.of_all", "0 to 64",
            "How many communicators of NCCL join all ranks, none of which is shared with a group "
            "of the plan; 0: one, which groups of the same ranks share. What a communicator holds "
            "says section device of the system."},
    KeyText{"communicators.of_node", "true or false", "Whether one joins the ranks of each node."},
    KeyText{"communicators.of_stages", "true or false",
            "Whether one joins all stages, beside those that pairs of stages have for messages."},
    KeyText{"communicators.trees", "true or false",
            "Whether NCCL connects trees with the rings, as before 2.22, not when they are first "
            "used: three or more ranks of a node then have device.node_buffers for two neighbours "
            "each."},
    KeyText{"communicators.multicast", "a size",
            "Buffers of reductions in the switch in the stack's version of NCCL, in place of the "
            "system's device.multicast, unless that is 0 B; 0 B: that one."},
    KeyText{"communicators.multicast_channels", "0 to 1024",
            "Channels of the tree between nodes into which these reductions lead, if it is "
            "connected at once: device.network_buffers for each of two neighbours (one, if there "
            "are two nodes); 0: it is not."}};

}  // namespace

std::span<KeyText const> system_keys() { return keys_of_system; }
std::span<KeyText const> software_keys() { return keys_of_software; }

}  // namespace stagecraft
