#include "libsim/plan/gradient_buckets.hpp"

#include <algorithm>

#include "libsim/plan/parameter_layout.hpp"

namespace stagecraft {

std::int64_t parameters_of(TrainingPlan const& plan,
                           ChunkProgram const& chunk,
                           std::int32_t first_block,
                           std::int32_t block_count) {
  std::int64_t sum = 0;
  for (std::int32_t i = first_block; i < first_block + block_count; ++i) {
    auto const index = static_cast<std::size_t>(chunk.blocks[static_cast<std::size_t>(i)]);
    BlockProgram const& block = plan.programs.blocks[index];
    for (Parameter const& parameter : block.parameters) {
      if (!parameter.shared) sum += block.tensor(parameter.weight).shape.elements();
    }
  }
  return sum;
}

std::int64_t first_parameter(TrainingPlan const& plan, StagePlan const& stage, ChunkId chunk) {
  std::int64_t sum = 0;
  for (ChunkId const other : chunks_in_model_order(plan, stage)) {
    if (other == chunk) break;
    std::int32_t const program = stage.chunks[other].program;
    ChunkProgram const& before = plan.programs.chunks[static_cast<std::size_t>(program)];
    sum += parameters_of(plan, before, 0, static_cast<std::int32_t>(before.blocks.size()));
  }
  return sum;
}

std::vector<GradientBucket> gradient_buckets(TrainingPlan const& plan, std::int32_t chunk_program) {
  ChunkProgram const& chunk = plan.programs.chunks[static_cast<std::size_t>(chunk_program)];
  auto const blocks = static_cast<std::int32_t>(chunk.blocks.size());
  std::int64_t const given = bucket_elements(plan.config);
  std::int64_t const limit = given > 0 ? given : megatron_bucket_elements(plan.replicas());
  bool const is_cut = given > 0 || chunk.has_embedding;
  std::vector<GradientBucket> buckets;
  std::int32_t end = blocks;
  std::int64_t filled = 0;
  for (std::int32_t i = blocks; i-- > 0;) {
    filled += parameters_of(plan, chunk, i, 1);
    // Blocks without parameters join the bucket after them.
    bool const is_full = is_cut && filled >= limit && parameters_of(plan, chunk, 0, i) > 0;
    if (is_full || i == 0) {
      buckets.push_back({i, end - i, parameters_of(plan, chunk, 0, i), filled});
      end = i;
      filled = 0;
    }
  }
  return buckets;
}

}  // namespace stagecraft
