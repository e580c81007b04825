#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/parameter_layout.hpp"
#include "libsim/plan/step_op.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// How many elements the ranges have.
std::int64_t elements_of(ParameterRanges const& ranges);

/// Gradients of which each member of the group has computed a part.
ParameterRanges summed_over(std::vector<PlacedParameter> const& layout, GroupId group);

/// The tied embedding, if the stage holds it.
ParameterRanges tied_embedding(std::vector<PlacedParameter> const& layout);

/// Everything that counts towards the norm, with who holds it. Ranges end where rows do
/// that other ranks hold too, so that sums do not depend on the layout.
ParameterRanges rows_with_holders(TrainingPlan const& plan,
                                  std::vector<PlacedParameter> const& layout,
                                  StageId stage);

/// All parameters, with what Adam decays.
ParameterRanges with_decay(std::vector<PlacedParameter> const& layout);

/// Parameters that are gathered after the step, because each rank has updated its shard of them.
struct GatheredRanges {
  GroupId group{};
  SharedRanges ranges;
  std::int32_t parameters = 0;  ///< how many begin in the ranges
};

/// What the ops at the end of a stage's step are about.
struct StageRanges {
  SharedRanges norm_gradients;  ///< summed over the tensor group
  SharedRanges kv_gradients;    ///< summed over the holders of the same key and value heads
  SharedRanges embedding;       ///< tied
  SharedRanges counted;         ///< rows_with_holders()
  SharedRanges decayed;         ///< with_decay()
  std::vector<GatheredRanges> gathered;
};

StageRanges stage_ranges(TrainingPlan const& plan, StagePlan const& stage);

/// Whether stage_ranges() are the same for both stages.
bool have_equal_ranges(TrainingPlan const& plan, StagePlan const& a, StagePlan const& b);

/// Whether the norm is summed over all ranks of the job, instead of those of a replica: with
/// sharded optimizer state every replica has seen only its own part of the gradients, and the
/// experts of a layer may be split over several replicas.
bool sums_norm_over_job(TrainingPlan const& plan);

}  // namespace stagecraft
