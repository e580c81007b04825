#pragma once

#include "libsim/config/key.hpp"
#include "libsim/hardware/constant_values.hpp"
#include "libsim/hardware/software.hpp"

/// The keys of a software file, as those of a system file.
namespace stagecraft {

template <typename Visitor, OneOf<HostCosts> Section>
void visit_keys(Visitor& keys, Section& host) {
  keys("kernel", host.kernel,
       "In which the host thread issues one kernel of a block that is neither a matrix product nor "
       "a collective, on a host of speed 1 (node.host_speed of the system). Where the accelerator "
       "is done sooner it waits: a pass of a block takes the longer of the two.");
  keys("gemm", host.gemm, "The same of a matrix product.");
  keys("launches", host.launches,
       "Kernels that the stack launches for an op of a kind, if not one: {rotary: 6}. Of "
       "grouped_gemm, and of biases of experts times probabilities, for each expert of the rank.",
       factor_range);
  keys("call", host.call,
       "On top, per call of a module, or of a function that has a backward of its own.");
  keys("calls", host.calls,
       "Such calls for an op of a kind, if any: {gemm: 1}. Products of a batch, which have no "
       "parameter, have none.",
       factor_range);
  keys("collective", host.collective, "The same of a collective.");
  keys("backward", host.backward,
       "The same of an op of the backward pass, relative to one of the forward pass.",
       factor_range);
  keys("collective_per_rank", host.collective_per_rank,
       "On top, for each rank of the group, for groups within a node: what checking every "
       "collective costs.");
  keys("collective_per_remote_rank", host.collective_per_remote_rank,
       "The same for groups that cross nodes.");
  keys("unfused_softmax", host.unfused_softmax,
       "On top, per softmax for which there is no fused kernel (see "
       "kernels.fused_softmax_multiple).");
  keys("pass", host.pass,
       "Per pass of a microbatch through a chunk, beside its ops. The accelerator waits for it as "
       "far as it is not busy longer in the pass than the host.");
  keys("message", host.message,
       "Per message between stages, on top of calibration.p2p_synchronisation.");
  keys("iteration", host.iteration, "Per iteration, on top of calibration.iteration_overhead.");
  keys("step_launches", host.step_launches,
       "Kernels that the step launches for each parameter tensor of a rank, beside those of "
       "host.iteration.",
       NumberRange{.lower = 0, .upper = 1000, .includes_upper = true});
}

template <typename Visitor, OneOf<KernelUse> Section>
void visit_keys(Visitor& keys, Section& kernels) {
  keys("time", kernels.time,
       "What the stack's kernels take by kind of op, relative to what the system's constants give: "
       "{gemm: 1.1}, or by the least accelerator.compute_capability for which it holds: "
       "{flash_attention: {8: 1.5}}.",
       factor_range, Accepts{"factors by kind of op"});
  keys("traffic", kernels.traffic,
       "Bytes that the stack's kernels move, relative to one fused kernel: {swiglu: 1.667}.",
       factor_range);
  keys("fused_softmax_multiple", kernels.fused_softmax_multiple,
       "Softmax is fused where this divides the number of score matrices of a rank (microbatch "
       "times heads over t); 0: always.",
       up_to_64);
  keys("unfused_softmax_traffic", kernels.unfused_softmax_traffic,
       "Bytes that softmax moves where it is not fused, relative to the fused one.", factor_range);
  keys("accumulation_bytes", kernels.accumulation_bytes,
       "Bytes moved per element when kernels of their own add a microbatch's weight gradient to "
       "the main gradient; 0: the matrix product adds it.",
       up_to_64);
  keys("fills_outputs", kernels.fills_outputs,
       "Whether, with deterministic, a kernel of its own fills the output of each product and "
       "attention before it is written: PyTorch's rule for torch.empty.");
  keys("early_stop", kernels.early_stop, "The default of recompute.early_stop.");
  keys("low_precision", kernels.low_precision,
       "low_precision.implementation of the runs in 8 bits that `plan` and `explain` try.");
}

template <typename Visitor, OneOf<ReplicaTraffic> Section>
void visit_keys(Visitor& keys, Section& replicas) {
  keys("sharding", replicas.sharding,
       "The kinds of sharding that the framework has, which `stagecraft plan` searches: [fsdp2].",
       Accepts{"a list of kinds of sharding"});
  keys("sync", replicas.sync,
       "Which microbatches reduce the gradients of sharded units, in plans of `stagecraft plan`: "
       "every or last.");
  keys("overlap", replicas.overlap,
       "Whether gradients are reduced beside the last microbatch's backward (unless_sharded: not "
       "with the distributed optimizer); the default of parallel.overlap_gradients.");
  keys("gradient_bytes", replicas.gradient_bytes,
       "Bytes of a gradient on the wire; 0: those of the main gradient.", up_to_64);
  keys("reduces_whole", replicas.reduces_whole,
       "Whether gradients are all-reduced instead of reduce-scattered with the distributed "
       "optimizer.");
  keys("bucket", replicas.bucket,
       "With overlap: bytes per call of the reduction, the default of parallel.gradient_bucket; 0 "
       "B: one call.");
  keys("call", replicas.call, "What a call of the reduction costs on top of its transfer.");
  keys("call_per_rank", replicas.call_per_rank, "On top, per rank of the group.");
  keys("gather_traffic", replicas.gather_traffic,
       "Bytes that copies before and after the all-gather of parameters move, per byte of the "
       "parameters; 0: it works in place.",
       up_to_64);
  keys(
      "unit_slowdown", replicas.unit_slowdown,
      "The part of its speed that computation loses beside gathers and reductions of sharded units "
      "that leave the node, in place of calibration.network_slowdown; 0: that one.",
      NumberRange{.lower = 0, .upper = 1, .includes_upper = true});
  keys("gather_piece", replicas.gather_piece,
       "What each parameter tensor costs in the all-gather, per rank of the group: the part of "
       "each rank is copied by itself.");
}

template <typename Visitor, OneOf<TensorTraffic> Section>
void visit_keys(Visitor& keys, Section& tensor) {
  keys("overlaps_backward", tensor.overlaps_backward,
       "Whether collectives of the backward pass run beside the products of the gradients.");
  keys("own_shard_first", tensor.own_shard_first,
       "Whether the product of the own shard runs while the others' are gathered.");
}

/// What the stack holds from op to op.
template <typename Visitor, OneOf<MemoryUse> Section>
void visit_op_memory(Visitor& keys, Section& memory) {
  keys("factor", memory.factor,
       "All bytes that the framework's allocator holds are multiplied by it; `stagecraft fit "
       "RUN.yaml --died`, --reserved and --allocated fit it.",
       factor_range);
  keys("kept", memory.kept,
       "What the stack keeps from forward to backward beside the op program's tensors, in bytes "
       "relative to the largest tensor that the op writes: {swiglu: 1}. Reserved bytes follow all "
       "keys of this section, counted bytes none.",
       factor_range);
  keys(
      "held", memory.held,
      "The same until the pass of a chunk ends, relative to the largest tensor that the op writes.",
      factor_range);
  keys("held_of_prediction", memory.held_of_prediction,
       "As held, for the head's ops on the last module of multi-token prediction.", factor_range);
  keys("temporary", memory.temporary, "The same while the op runs, relative to all that it writes.",
       factor_range);
  keys("transposed_attention", memory.transposed_attention,
       "Whether fused attention is FlashAttention's kernel where cuDNN's is not the faster one or "
       "is not deterministic, and its output is then kept twice, in the kernel's order and in that "
       "of the next product.");
}

/// Gradients, optimizer state, and buffers that are never freed.
template <typename Visitor, OneOf<MemoryUse> Section>
void visit_state_memory(Visitor& keys, Section& memory) {
  keys("separate_gradients", memory.separate_gradients,
       "Whether the weight gradients of a microbatch have buffers of their own, in the type of the "
       "parameters, until they are added to the main gradients at the end of its backward pass.");
  keys("passing_gradients", memory.passing_gradients,
       "Without separate_gradients: whether weight gradients that no matrix product accumulates "
       "(all, if main gradients are narrower than fp32) have a tensor in the type of the "
       "parameters until it has been added to the main gradient.");
  keys("widened_gradients", memory.widened_gradients,
       "Whether the optimizer step works on fp32 copies of narrower main gradients, which live "
       "until the next iteration begins; not if moments are as narrow.");
  keys("foreach_step", memory.foreach_step,
       "Whether Adam works on all parameters at once, kernel by kernel: the step then holds a "
       "square root of every second moment.");
  keys("freed_gradients", memory.freed_gradients,
       "Whether the gradients of sharded units are freed when the step has used them, not when the "
       "next iteration begins.");
  keys("replica_gradient_bytes", memory.replica_gradient_bytes,
       "Bytes per parameter of the buckets that replicas reduce, where these are no part of the "
       "main gradients; not with the distributed optimizer.",
       up_to_64);
  keys("first_replica_bucket", memory.first_replica_bucket,
       "The first of these buckets is full with so many bytes; 0 B: it takes everything.");
  keys("replica_bucket", memory.replica_bucket, "The same of every other bucket.");
  keys("kept_inputs", memory.kept_inputs,
       "Whether each chunk keeps what it has received last, and its gradient, until its next "
       "forward, also between two iterations.");
  keys("kept_root", memory.kept_root,
       "Whether Megatron-FSDP's buffer of gathered parameters outside layers stays allocated "
       "between "
       "two iterations.");
  keys("kept_gathers", memory.kept_gathers,
       "Whether gathered activations, and gathered gradients, go into one buffer each that is "
       "never freed.");
  keys(
      "global_buffer", memory.global_buffer,
      "One buffer, never freed, that serves all ops of these kinds; it is as large as its largest "
      "use, in bytes relative to the largest tensor that the op writes. What is gathered is "
      "gathered into it, but gradients that enter row-parallel products have tensors of their own.",
      factor_range);
  keys("joined_master_weights", memory.joined_master_weights,
       "Whether all master weights of a rank are one buffer.");
  keys("sharded_parameters", memory.sharded_parameters,
       "Whether the distributed optimizer cuts each parameter into shards, so that moments are "
       "tensors of one parameter each; else it cuts the buckets of gradients, and each moment has "
       "a tensor per bucket.");
  keys("gather_copies", memory.gather_copies,
       "Whether the distributed optimizer gathers the parameters through copies: of the own shard, "
       "of every replica's, and of all together.");
}

template <typename Visitor, OneOf<MemoryUse> Section>
void visit_workspaces(Visitor& keys, Section& memory) {
  keys(
      "workspace", memory.workspace,
      "Workspace of matrix products that the allocator serves, once for each pass's thread: {0: 4 "
      "MiB, 9: 32 MiB}, by the least accelerator.compute_capability for which it holds, or one for "
      "all devices. memory.cublas_workspace of the run takes its place.",
      Accepts{"bytes, or bytes by compute capability"});
  keys("shared_workspace", memory.shared_workspace, "The same, once for both threads together.",
       Accepts{"bytes, or bytes by compute capability"});
  keys("grouped_workspace", memory.grouped_workspace,
       "The same for products of experts in groups, from the first one on.",
       Accepts{"bytes, or bytes by compute capability"});
  keys("router_workspace", memory.router_workspace,
       "As shared_workspace, if the model has a router and there is no shared_workspace.",
       Accepts{"bytes, or bytes by compute capability"});
}

/// How far the host is ahead of the accelerator, which decides what can be allocated again.
template <typename Visitor, OneOf<MemoryUse> Section>
void visit_host_lead(Visitor& keys, Section& memory) {
  keys("host_lead", memory.host_lead,
       "How many kernels the host is ahead of the accelerator. What a collective has used can be "
       "allocated again only after so many kernels; 0: at once. A host that receives a message "
       "waits for the accelerator first.",
       Between{0, 1'000'000});
  keys("waits_after_sends", memory.waits_after_sends,
       "With host_lead: whether the host waits for the accelerator after it has sent to another "
       "stage, too.");
  keys("waits_after_passes", memory.waits_after_passes, "The same after each pass of a chunk.");
  keys("late_connections", memory.late_connections,
       "With host_lead: whether hosts connect two stages when these first exchange a message. With "
       "three stages or more, the accelerator of the first one then stands still in its second "
       "message of all, until the next stage has connected to the one after it, and the host goes "
       "on until it waits. Without effect with waits_after_sends.");
  keys("kernels_per_op", memory.kernels_per_op,
       "With host_lead: how many kernels the stack launches for one op of the op program.",
       factor_range);
  keys("host_gain", memory.host_gain,
       "With host_lead: by how many kernels the host gets ahead, at least, with each that it "
       "launches. Where the accelerator is slower, its time over the host's less one.",
       NumberRange{.lower = 0, .upper = 1000, .includes_upper = true});
}

template <typename Visitor, OneOf<MemoryUse> Section>
void visit_keys(Visitor& keys, Section& memory) {
  visit_op_memory(keys, memory);
  visit_state_memory(keys, memory);
  visit_workspaces(keys, memory);
  visit_host_lead(keys, memory);
}

template <typename Visitor, OneOf<CommunicatorUse> Section>
void visit_keys(Visitor& keys, Section& communicators) {
  keys("of_all", communicators.of_all,
       "How many communicators of NCCL join all ranks, none of which is shared with a group of the "
       "plan; 0: one, which groups of the same ranks share. What a communicator holds says section "
       "device of the system.",
       up_to_64);
  keys("of_node", communicators.of_node, "Whether one joins the ranks of each node.");
  keys("of_stages", communicators.of_stages,
       "Whether one joins all stages, beside those that pairs of stages have for messages.");
  keys("trees", communicators.trees,
       "Whether NCCL connects trees with the rings, as before 2.22, not when they are first used: "
       "three or more ranks of a node then have device.node_buffers for two neighbours each.");
  keys("multicast", communicators.multicast,
       "Buffers of reductions in the switch in the stack's version of NCCL, in place of the "
       "system's device.multicast, unless that is 0 B; 0 B: that one.");
  keys("multicast_channels", communicators.multicast_channels,
       "Channels of the tree between nodes into which these reductions lead, if it is connected at "
       "once: device.network_buffers for each of two neighbours (one, if there are two nodes); 0: "
       "it is not.",
       channel_range);
}

template <typename Visitor, OneOf<Software> Section>
void visit_keys(Visitor& keys, Section& software) {
  if constexpr (requires { Visitor::lists; }) {
    keys.apart("base",
               "The stack from which everything that this file does not give is inherited: a name "
               "of configs/software, or a file relative to this one.",
               Accepts{"a file or a name"});
  }
  keys("name", software.name,
       "The name in outputs. With a base, the default is the name of the file.", Need::required);
  keys("factor", software.factor,
       "Every duration is multiplied by it; `stagecraft fit RUN.yaml --measured TIME` fits it.",
       factor_range);
  keys.value("host", software.host);
  keys.value("kernels", software.kernels);
  keys.value("replicas", software.replicas);
  keys.value("tensor", software.tensor);
  keys.value("memory", software.memory);
  keys.value("communicators", software.communicators);
}

}  // namespace stagecraft
