#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The sharded ranges of a rank, in order. Without the distributed optimizer there is one. With it,
/// each gradient bucket is one, and a tied embedding is another, because both stages that hold it
/// must cut it in the same way. If parameters are shared, each of them is one, or each part of a
/// flat unit (parts_of): what is before and after the experts of a layer is one, too.
/// Source: Megatron-LM core/distributed/param_and_grad_buffer.py.
std::vector<ShardedRun> sharded_runs(TrainingPlan const& plan, StagePlan const& stage);

/// The elements of optimizer state that each replica holds: one shard of every range.
std::int64_t optimizer_shard(StagePlan const& stage);

}  // namespace stagecraft
