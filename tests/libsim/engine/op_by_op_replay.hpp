#pragma once

#include <cstdint>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/program/category_bytes.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// An op that a rank ran.
struct ReplayedOp {
  Op const* op = nullptr;
  SimTime start{0};
  SimTime end{0};
  std::int64_t layer = -1;
  std::int32_t microbatch = -1;
  std::int32_t chunk = -1;
};

struct ReplayedRank {
  CategoryBytes at_peak;  ///< at the first instant where the sum is largest; without workspace
  SimTime peak_at{0};
  std::int64_t activation_peak = 0;
  std::vector<ReplayedOp> ops;  ///< in issue order
  SimTime end{0};
  CategoryBytes left;  ///< what is held at the end
};

struct ReplayedIteration {
  std::vector<ReplayedRank> ranks;
  SimTime makespan{0};
};

/// Plays an iteration op by op, with nothing summarized: a second, slow implementation of what the
/// engine's chunk summaries claim, written from the headers of model, plan and timeline.
///
/// Every buffer is an object of its own, allocated and released as BufferLife says, handed from
/// block to block and from stage to stage. An op that touches a buffer that does not exist (any
/// more), a buffer released twice, and a buffer left over at the end are failures. \throws
/// std::logic_error  for each of those, naming the op.
ReplayedIteration replay_op_by_op(TrainingPlan const& plan, System const& system);

}  // namespace stagecraft
