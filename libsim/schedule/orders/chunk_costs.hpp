#pragma once

#include <cstdint>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The costs of a schedule's passes, the same on every stage, in a unit of the caller's choice.
struct ChunkCosts {
  double forward = 1;         ///< one microbatch through one chunk; also the cost of a recompute
  double backward = 2;        ///< a whole backward
  double transfer = 0;        ///< from the start of a message to its arrival; messages do not queue
  double input_gradient = 1;  ///< the part of the backward that the chunk before waits for
  double weight_gradient = 1;  ///< the rest of the backward

  double of(Pass pass) const;
};

/// \throws ScheduleError  unless each cost is 0 or from 1e-100 to 1e100, and a forward or a
/// backward has a cost above 0.
void check_costs(ChunkCosts const& costs);

/// Costs as whole ticks of a decimal fraction of the unit, so that costs of few digits and their
/// sums are exact.
class CostTicks {
 public:
  /// The largest cost has 10^11 to 10^12 ticks, or fewer, so that `operations` of them in a row
  /// stay within the range of SimTime. Pre: check_costs()
  CostTicks(ChunkCosts const& costs, double operations);

  SimTime of(double cost) const;
  double ticks_per_unit() const { return scale_; }

 private:
  double scale_;
};

}  // namespace stagecraft
