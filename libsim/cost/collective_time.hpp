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
/// From the system's measured tables where they have its shape or a near one. In a node that is the
/// nearest number of ranks, else another kind, at the size for which a ring moves as many bytes;
/// over nodes it is the nearest number of nodes with as many ranks on each, times what the model
/// below has for ours relative to it.
///
/// Else, in a node: latency + ring bytes / bandwidth, or a table for one number of ranks. Over
/// nodes: the groups of a node run it at the same time and share its adapters: one of k ranks per
/// node has k of as many parts of them as the node has accelerators. If the system gives measured
/// rates, an all-reduce of whole nodes runs at theirs, and gathers and scatters at k parts of
/// theirs; what was not measured is slower by border_slowdown(). A ring pays the network's latency
/// for each step; an all-reduce is a tree, whose depth is the logarithm of the number of nodes,
/// where that is faster. Both also cost the latency of one in a node, which is what starts it and
/// its steps there.
///
/// An all-to-all, of which `whole` is what each member sends: the longer of what leaves a node over
/// the adapters and of what stays on its links.
/// A ring shift, of which `whole` is what each member sends: latency and bandwidth of the slowest
/// hop, which is one between nodes if there are several.
/// Source: NVIDIA/nccl, src/graph/tuning.cc: a tree has 0.92 of a ring's bandwidth; latency over
/// nodes is a base, the steps within nodes and the steps between them.
Seconds collective_time(OpKind kind, Bytes whole, NodeSpread spread, System const& system);

/// Time of an all-to-all of tokens, of which each rank has `sent`, when a token is sent once to
/// each node and from there once to each rank: the longer of what leaves a node over the adapters
/// and of what goes over its links, at the rates of an all-to-all. The links wait for the rank that
/// most tokens reach; nodes are taken to be alike, as each has several ranks.
/// Source: deepseek-ai/DeepEP dd758ca; HybridEP sends as much. Held against arXiv:2603.07685,
/// table 7.
Seconds unique_all_to_all_time(Bytes sent,
                               ExchangeAttributes const& exchange,
                               NodeSpread spread,
                               System const& system);

/// The rate at which one accelerator sends over the network while all others of its node send too.
BytesPerSecond network_share(System const& system);

}  // namespace stagecraft
