#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "libexec/executor/rank_context.hpp"

namespace stagecraft {

/// Runs the ops of a rank once their operands are found: kernels on the rank's backend, collectives
/// through its communicator. Every op is one row of the trace.
class OpRunner {
 public:
  explicit OpRunner(RankContext const& context) : context_{context} {}

  /// Calls `work`, which runs the op's kernels.
  template <typename Work>
  void compute(Op const& op, OpPlace const& place, Work const& work) {
    context_.record(op, place, context_.clock.run(work));
  }
  /// For an op that has nothing to do.
  void record_now(Op const& op, OpPlace const& place);

  /// Starts the collectives of an op, which run one after the other, and after what the op waits
  /// for. Callers fill in operands and
  /// pieces. `position`: of the op in its program. `sizes`: what the collectives' sizes of pieces
  /// point into.
  void start(Op const& op,
             OpPlace const& place,
             std::vector<Collective> collectives,
             std::int32_t position = 0,
             std::vector<std::int64_t> sizes = {});
  /// Waits for the collectives of all ops up to a position.
  void finish(std::int32_t last = std::numeric_limits<std::int32_t>::max());

 private:
  /// An op whose collectives nobody has waited for.
  struct Pending {
    std::int32_t position = 0;
    GroupId group{};
    std::vector<Communicator::Ticket> tickets;
    std::size_t row = 0;
    std::vector<std::int64_t> sizes{};
  };

  RankContext const& context_;
  std::vector<Pending> pending_;
};

}  // namespace stagecraft
