#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/parameter_layout.hpp"
#include "libsim/plan/step_op.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The number of elements in the ranges.
std::int64_t elements_of(ParameterRanges const& ranges);

/// Gradients that are sums over the group: each member has computed a part.
ParameterRanges summed_over(std::vector<PlacedParameter> const& layout, GroupId group);

/// The tied embedding, if the stage holds it.
ParameterRanges tied_embedding(std::vector<PlacedParameter> const& layout);

/// All elements that count towards the norm, with their holders. A range ends at the last row that
/// the same ranks hold, so that sums do not depend on the layout.
ParameterRanges rows_with_holders(TrainingPlan const& plan,
                                  std::vector<PlacedParameter> const& layout,
                                  StageId stage);

/// All parameters, with the ones to which weight decay applies marked.
ParameterRanges with_decay(std::vector<PlacedParameter> const& layout);

/// Parameters that are gathered after the step, because each rank has updated its shard of them.
struct GatheredRanges {
  GroupId group{};
  SharedRanges ranges{};
  std::int32_t parameters = 0;  ///< number of parameters that begin in the ranges
  SharedRanges low{};           ///< the same of parameters that are kept quantised alone
  std::int32_t low_parameters = 0;
};

/// The ranges on which the ops at the end of a stage's step work.
struct StageRanges {
  SharedRanges norm_gradients;  ///< summed over the tensor group
  SharedRanges kv_gradients;    ///< summed over the holders of the same key and value heads
  SharedRanges embedding;       ///< the tied embedding
  SharedRanges counted;         ///< rows_with_holders()
  SharedRanges decayed;         ///< with_decay()
  SharedRanges low;             ///< parameters that are kept quantised alone
  SharedRanges high;            ///< all others, if there are such
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
