#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/program/block_program.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A time in which the streams of a pass stand still until the host has issued an op.
struct HostWait {
  SimTime start{0};
  SimTime end{0};
  std::size_t op = 0;  ///< that it issues then; the number of ops for a wait behind all of them
  Phase phase = Phase::forward;  ///< in which it is counted

  SimTime duration() const { return end - start; }
};

/// The times of the ops of one pass of a block, relative to the pass's start, with nothing else
/// running on the rank.
struct PassTimes {
  std::vector<SimTime> start;  ///< by op
  std::vector<SimTime> end;    ///< by op
  SimTime duration{0};
  SimTime forward{0};  ///< share of the compute stream's time that forward ops take, exposed
                       ///< communication and waits for the host included; all shares sum to the
                       ///< duration
  SimTime recompute{0};
  SimTime backward{0};
  SimTime data_parallel{0};          ///< likewise what sharded units add
  SimTime offload{0};                ///< likewise waits for what layers keep on the host
  std::vector<HostWait> host_waits;  ///< parts of the duration, in order of time
  SimTime host_ahead{0};             ///< by how much longer the streams take than the host
  /// Part of the duration in which collectives use the links of gradient reductions.
  SimTime on_links{0};
};

/// Plays one pass on its streams.
///
/// Collectives start once all compute issued before them is done, in order on their stream. Compute
/// is slowed down while a collective runs beside it. The compute stream stands still at explicit
/// waits. A pass takes at least as long as the host takes to issue it: over a chunk of equal
/// layers, the host is either ahead by more than a layer, or behind in each of them in the same
/// way.
PassTimes time_pass(BlockProgram const& block, Pass pass, CostModel const& cost);

/// The time at which the compute stream issues op `op` of a pass, and its buffers are allocated. A
/// collective may start later, after others on its stream.
SimTime issue_time(std::vector<Op> const& ops, PassTimes const& times, std::size_t op);

}  // namespace stagecraft
