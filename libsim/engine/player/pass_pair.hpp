#pragma once

#include <span>
#include <vector>

#include "libsim/engine/player/block_times.hpp"
#include "libsim/program/op.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A stretch of a pass: it computes, and then waits while tokens travel to experts or back.
struct PassNode {
  SimTime compute{0};  ///< collectives that no other pass hides included
  SimTime exchange{0};
};

/// The nodes of a pass of a block; only the last is not followed by an exchange. One node if
/// something of the pass itself runs beside an exchange, or if it waits for the host anyway.
std::vector<PassNode> nodes_of(std::vector<Op> const& ops, PassTimes const& times);

/// The time of nodes' exchanges.
SimTime exchange_time(std::span<PassNode const> nodes);

/// Plays a forward and the backward of another microbatch beside each other on one rank: one
/// computes while tokens of the other travel.
///
/// Both have the compute stream, and one stream for exchanges; each stream runs what it is given in
/// order. Computation is slowed down while tokens of the other pass travel or, if kernels leave the
/// multiprocessors of the exchanges free, in all of the pair.
/// Source: Megatron-LM, core/models/common/model_chunk_schedule_plan.py,
/// TransformerLayerSchedulePlan.run and TransformerModelChunkSchedulePlan.run.
class PairPlayer {
 public:
  explicit PairPlayer(int slowdown_millionths, bool is_always_slowed = false)
      : slowdown_millionths_{slowdown_millionths}, is_always_slowed_{is_always_slowed} {}

  void forward(std::span<PassNode const> nodes) { play(forward_, nodes); }
  void backward(std::span<PassNode const> nodes) { play(backward_, nodes); }
  /// A layer of each. The exchange of a node of the forward runs beside the next node of the
  /// backward, that of a node of the backward beside the same node of the forward.
  void together(std::span<PassNode const> forward, std::span<PassNode const> backward);

  /// When both have ended.
  SimTime end() const;

 private:
  void play(SimTime& ready, std::span<PassNode const> nodes);
  void compute(SimTime& ready, SimTime duration);
  void exchange(SimTime& ready, SimTime duration);

  int slowdown_millionths_;
  bool is_always_slowed_;
  SimTime forward_{0};    ///< when the forward can go on
  SimTime backward_{0};   ///< when the backward can
  SimTime computing_{0};  ///< end of the compute stream's work so far
  SimTime exchanging_{0};
};

}  // namespace stagecraft
