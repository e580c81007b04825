#pragma once

#include <optional>
#include <vector>

#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/order_kind.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// The arguments from which the order of a named schedule follows.
struct OrderRequest {
  OrderKind kind = OrderKind::zb_h1;
  int stages = 1;        ///< p
  int microbatches = 1;  ///< n: of one replica in one iteration; over both directions of dualpipe
  int chunks = 1;        ///< per stage; kinds with a fixed number ignore it
  int group = 0;         ///< interleaved kinds: microbatches per group; 0: p, or the only one
  bool expert_overlap = false;  ///< interleaved: pairs of a forward and a backward
  int recompute_chunks = 0;     ///< group_interleaved: chunks of each stage that recompute
  OrderVariant variant = OrderVariant::fixed;  ///< zbv
  /// Whether an input gradient right before its weight gradient runs as one whole backward.
  /// Default: as the schedule's public code does. false splits every backward; zb_h1 is then the
  /// paper's.
  std::optional<bool> fuse_adjacent{};
  ChunkCosts costs{};      ///< kinds whose order depends on costs
  MemoryChanges memory{};  ///< kinds whose order depends on memory; v_auto counts chunks instead
  /// Searches: the costs of each virtual stage, if they differ.
  std::vector<ChunkCosts> stage_costs{};
  /// Searches: whether an input gradient right before its weight gradient is a whole backward, with
  /// the cost of one.
  bool joins_backward = false;
  /// The limit on each stage, in forwards of one chunk. Default: as much as 1F1B holds, p forwards
  /// of one chunk or 2p of two.
  std::optional<double> memory_limit{};
};

/// The order of a named schedule, as the public code of the schedule makes it; its source is beside
/// each generator (generators.hpp).
/// \throws ScheduleError  if no order exists for the numbers; it says which are accepted.
PipelineOrder make_order(OrderRequest const& request);

}  // namespace stagecraft
