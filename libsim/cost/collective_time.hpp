#pragma once

#include <cstdint>

#include "libsim/cost/oversubscription.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/unique_tokens.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Bytes that a ring moves over each rank's link: (n-1)/n of the whole tensor, twice for an
/// all-reduce.
/// Pre of all functions here: is_collective(kind).
double ring_bytes(OpKind kind, Bytes whole, int ranks);

/// Time of a collective on a tensor of `whole` bytes, unsharded.
///
/// The system's measured tables are used if they have its shape or a near one. In a node that is
/// the nearest number of ranks, else another kind, at the size for which a ring moves as many
/// bytes. Over nodes it is the nearest number of nodes with as many ranks on each; its time is
/// scaled by the model's ratio of the two shapes.
///
/// Otherwise, in a node: latency + ring bytes / bandwidth, or a table for one number of ranks. Over
/// nodes: all groups of a node run the collective at the same time and share its adapters. A group
/// with k ranks per node has k of as many parts of them as the node has accelerators. If the system
/// gives measured rates, an all-reduce of whole nodes runs at theirs, and gathers and scatters at k
/// parts of theirs; rates that were not measured are slower by border_slowdown(). A ring pays the
/// network's latency for each step. An all-reduce is a tree, whose depth is the logarithm of the
/// number of nodes, if that is faster. Both also cost the latency of a collective in a node, for
/// their start and their steps there.
///
/// All-to-all: `whole` is what each member sends. It takes the longer of two times: of what leaves
/// a node over the adapters, and of what stays on its links.
/// Ring shift: `whole` is what each member sends. It takes the latency and bandwidth of the slowest
/// hop, which is one between nodes if there are several nodes.
/// Source: NVIDIA/nccl, src/graph/tuning.cc: a tree has 0.92 of a ring's bandwidth; latency over
/// nodes is a base, the steps within nodes and the steps between them.
Seconds collective_time(OpKind kind, Bytes whole, NodeSpread spread, System const& system);

/// Time of an all-to-all of tokens, if a token is sent once to each node and from there once to
/// each rank. Each rank has `sent`. It is the longer of two times, at the rates of an all-to-all:
/// of what leaves a node over the adapters, and of what goes over its links. The links wait for the
/// rank that most tokens reach; nodes are taken to be alike, as each has several ranks.
/// Source: deepseek-ai/DeepEP dd758ca; HybridEP sends as much. Compared with arXiv:2603.07685,
/// table 7.
Seconds unique_all_to_all_time(Bytes sent,
                               ExchangeAttributes const& exchange,
                               NodeSpread spread,
                               System const& system);

/// The rate at which one accelerator sends over the network while all others of its node send too.
BytesPerSecond network_share(System const& system);

}  // namespace stagecraft
