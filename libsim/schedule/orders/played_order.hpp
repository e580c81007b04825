#pragma once

#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// One computation of a stage, placed in time.
struct ChunkSpan {
  ChunkRun run;
  SimTime start{0};
  SimTime end{0};
  bool is_paired = false;  ///< overlaps the computation after it, which has the same start and end
};

/// The parts of a stage's time: end = busy + transfer + bubble.
struct StageRuns {
  SimTime start{0};        ///< start of its first computation
  SimTime end{0};          ///< end of its last computation or message
  SimTime busy{0};         ///< time of computations
  SimTime recomputing{0};  ///< the part of `busy` that is recompute
  SimTime transfer{0};     ///< time of waiting for a message on its way
  SimTime bubble{0};       ///< time of waiting for another stage
  std::vector<ChunkSpan> runs;
};

/// A schedule alone, played with uniform costs.
struct PlayedOrder {
  std::vector<StageRuns> stages;
  SimTime makespan{0};        ///< end of the last stage
  double ticks_per_unit = 1;  ///< SimTime ticks per unit of the costs

  double in_units(SimTime time) const { return static_cast<double>(time.count()) / ticks_per_unit; }
};

/// The longest time of a stage from the start of its first computation to its end. It is shorter
/// than the makespan if stages that start late end last. The zero-bubble paper's "cost" (Qi et al.
/// 2023, arXiv:2401.10241, section 4).
SimTime span_of(PlayedOrder const& played);

/// The busy time of the busiest stage, without recompute: the iteration time if no stage waited or
/// recomputed.
SimTime ideal_time(PlayedOrder const& played);

/// (makespan - ideal) / ideal. Pre: some stage is busy.
double bubble_fraction(PlayedOrder const& played);

}  // namespace stagecraft
