#pragma once

#include <cstdint>

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// Whether the interleaved schedule can run the microbatches in groups of `group`: stages <= group
/// <= microbatches, and the last group is full or has at least `stages` microbatches.
/// Source: microbatch_group_size_per_vp_stage of Megatron-LM, core/pipeline_parallel/schedules.py.
constexpr bool is_group(std::int64_t group, std::int64_t microbatches, std::int64_t stages) {
  return group >= stages && group <= microbatches &&
         (microbatches % group == 0 || microbatches % group >= stages);
}

/// Forwards of an interleaved schedule before the first backward of a stage that `behind` stages
/// follow, if there are as many. Source: get_pp_rank_microbatches of the same file.
constexpr int interleaved_warmup(int behind, int chunks, int group) {
  return 2 * behind + (chunks - 1) * group;
}

/// The chunk of the k-th backward, given that of the k-th forward: chunks go in reverse order.
constexpr ChunkId mirrored(ChunkId forward, int chunks) {
  return ChunkId{chunks - 1 - forward.value()};
}

}  // namespace stagecraft
