#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>

#include "libsim/cost/cost_model.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/received_rows.hpp"
#include "libsim/search/chunk_contents.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// Time and memory of a pass through some blocks: a TaskProfile without categories.
struct PassSummary {
  std::int64_t picoseconds = 0;
  std::int64_t net = 0;   ///< bytes at its end minus bytes at its start
  std::int64_t peak = 0;  ///< most bytes above its start
  /// Of the picoseconds, those of exchanges that a pass beside it can hide.
  std::int64_t hidable = 0;

  /// Continues with `next`.
  PassSummary& operator+=(PassSummary const& next);
  /// The sum of `times` such passes, one after the other.
  PassSummary repeated(std::int64_t times) const;
};

/// That of a pass of a block.
PassSummary summary_of(BlockProgram const& block, Pass pass, CostModel const& cost);

/// All passes through consecutive blocks. Those of a split backward are empty unless some backward
/// is split.
struct PieceSummary {
  PassSummary forward;
  PassSummary backward;
  PassSummary input_gradient;
  PassSummary weight_gradient;

  /// Appends `next`, which follows in model order.
  PieceSummary& operator+=(PieceSummary const& next);
  PieceSummary repeated(std::int64_t times) const;
  /// The time of forward and backward, of a whole or of a split one, whichever takes less.
  std::int64_t picoseconds() const;
  /// The part of whole passes that a pass beside them can hide.
  std::int64_t hidable() const { return forward.hidable + backward.hidable; }
  /// What a microbatch holds between the two passes of a split backward.
  std::int64_t held_for_weights() const { return forward.net + input_gradient.net; }
};

/// Whether schedules split backwards: programs then have both passes.
enum class BackwardPasses : std::uint8_t { whole, split };

/// Bytes of a message buffer.
struct MessageSizes {
  std::int64_t whole = 0;
  std::int64_t piece = 0;
};

/// Builds each block of one shape once, and derives its time and memory. If a file or a factor
/// gives the rows that experts compute, ranks, layers and microbatches may differ. Then a layer has
/// the fewest rows of one rank, so that times and bytes are lower bounds.
class BlockSummaries {
 public:
  /// `request` must outlive this object.
  BlockSummaries(SearchRequest const& request,
                 ShapeChoice const& shape,
                 BackwardPasses passes = BackwardPasses::whole);
  BlockSummaries(BlockSummaries const&) = delete;  // the cost model refers to the outline
  BlockSummaries(BlockSummaries&&) = delete;
  BlockSummaries& operator=(BlockSummaries const&) = delete;
  BlockSummaries& operator=(BlockSummaries&&) = delete;
  ~BlockSummaries() = default;

  LayerKinds const& kinds() const { return kinds_; }
  /// Whether times and bytes are those of a plan, not lower bounds.
  bool are_exact() const { return !outline_.config.routing.is_forced(); }
  MessageSizes message_sizes() const;

  /// Time and memory of a chunk under a policy. Pre: the policy is none, selective, modules,
  /// uniform or block.
  PieceSummary chunk(ChunkContent const& content, PolicyCode policy);

  /// The time of a microbatch's forward and backward through the whole model if nothing is
  /// recomputed, picoseconds.
  std::int64_t work() { return whole_model().picoseconds(); }
  /// The part of work() that passes in pairs can hide of each other's exchanges.
  std::int64_t hidable() { return whole_model().hidable(); }

 private:
  /// Layers that are recomputed together.
  struct Group {
    PolicyCode recompute;
    std::span<int const> kinds;  ///< kinds of its layers; part of kinds_
  };
  /// An arbitrary total order. Sizes come first, so that kinds seldom have to be compared.
  struct GroupOrder {
    bool operator()(Group const& a, Group const& b) const;
  };

  /// The block after the layers.
  struct Head {
    HeadWeight weight;
    PolicyCode recompute;  ///< recompute of the modules of multi-token prediction
    friend auto operator<=>(Head const&, Head const&) = default;
  };

  RecomputePolicy settled_policy(PolicyCode code) const;
  BlockShape shape_of(LayerConfig const& kind);
  /// If a file gives counts, the layers have the fewest rows of one expert. Makes their ops cost no
  /// more than with any other rows: sums over rows take least if the experts share the rows.
  void let_cost_least(BlockProgram& block);
  PieceSummary whole_model();
  PieceSummary layers(ChunkContent const& content, PolicyCode policy);
  PieceSummary const& head(HeadWeight weight, PolicyCode recompute);
  void add_groups(PieceSummary& piece,
                  std::span<int const> kinds,
                  std::int64_t size,
                  PolicyCode recompute);
  PieceSummary const& group(std::span<int const> kinds, PolicyCode recompute);
  PieceSummary summarize(BlockProgram block) const;

  bool has_split_;
  TrainingPlan outline_;
  LayerKinds kinds_;
  ReceivedRows rows_;
  int rank_;  ///< the rank whose rows blocks have
  CostModel cost_;
  bool has_inputs_;
  PieceSummary inputs_;
  PieceSummary embedding_;
  std::map<Head, PieceSummary> heads_;
  std::map<Group, PieceSummary, GroupOrder> groups_;
};

}  // namespace stagecraft
