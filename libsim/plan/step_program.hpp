#pragma once

#include <cstdint>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A contiguous run of a chunk's blocks whose gradients are reduced together.
struct GradientBucket {
  std::int32_t first_block = 0;
  std::int32_t block_count = 0;
  std::int64_t first = 0;  ///< elements of the chunk's parameters before the bucket's
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
/// Megatron cuts only the first chunk of the first stage into buckets of max(40e6, 1e6 d) elements;
/// every other chunk is one bucket. With parallel.gradient_bucket every chunk is cut into buckets
/// of so many elements or more. Buckets end at block borders here.
/// Source: Megatron-LM, distributed_data_parallel.py.
std::vector<GradientBucket> gradient_buckets(TrainingPlan const& plan, std::int32_t chunk_program);

/// Appends what a rank does before the first microbatch: zeroing the main gradients.
void append_begin_of_step(StagePlan& stage, TrainingPlan const& plan);

/// Appends the reduction of a bucket's gradients over the replicas, on the data-parallel stream:
/// scaled by 1/d, then all-reduced, or reduce-scattered with the distributed optimizer. Buckets are
/// reduced from the last parameters to the first.
void append_gradient_reduction(StagePlan& stage,
                               TrainingPlan const& plan,
                               ParameterRange const& bucket);

/// Appends what follows the last microbatch: the reduction of all gradients over the replicas
/// (unless it was overlapped), those over tensor ranks and between the two holders of a tied
/// embedding, and the mixed-precision Adam step.
///
/// Bytes per parameter with fp16: zero 4, scale 8, unscale 8, norm 4, clip 8, Adam 28, narrow 6.
/// Source: Megatron-LM of May 2022, optimizer/optimizer.py and model/distributed.py.
void append_end_of_step(StagePlan& stage, TrainingPlan const& plan);

}  // namespace stagecraft
