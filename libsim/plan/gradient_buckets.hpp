#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A contiguous run of a chunk's blocks whose gradients are reduced together.
struct GradientBucket {
  std::int32_t first_block = 0;
  std::int32_t block_count = 0;
  std::int64_t first = 0;  ///< elements of the chunk's parameters before the bucket
  std::int64_t parameters = 0;
};

/// Elements of the parameters that a chunk's blocks [first, first + count) hold on a rank.
std::int64_t parameters_of(TrainingPlan const& plan,
                           ChunkProgram const& chunk,
                           std::int32_t first_block,
                           std::int32_t block_count);

/// Elements of a stage's flat order of parameters before those of a chunk.
std::int64_t first_parameter(TrainingPlan const& plan, StagePlan const& stage, ChunkId chunk);

/// The buckets of a chunk program, in the order in which its backward completes them.
///
/// Megatron cuts only the first chunk of the first stage into buckets, of max(40e6, 1e6 d)
/// elements; every other chunk is one bucket. With parallel.gradient_bucket every chunk is cut into
/// buckets of at least that many elements. Here buckets end at block borders.
/// Source: Megatron-LM, distributed_data_parallel.py.
std::vector<GradientBucket> gradient_buckets(TrainingPlan const& plan, std::int32_t chunk_program);

}  // namespace stagecraft
