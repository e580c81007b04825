#pragma once

#include <cstdint>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/orders/placement.hpp"
#include "libsim/schedule/schedule_shape.hpp"
#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

/// The passes that stage programs have. What a chunk recomputes belongs to its backward, or to its
/// input gradient, unless the order has a pass of its own for it.
inline constexpr int part_count = 5;

/// What a pass receives and sends. Activations go to the next virtual stage, gradients to the one
/// before. Pre: it is neither a weight gradient nor a recompute, which do neither.
constexpr Transfer::Payload message_of(Pass pass) {
  return pass == Pass::forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
}

/// The programs of all stages, with their messages. A task is one pass through one chunk (see
/// task()).
struct PipelineSchedule {
  ScheduleShape shape;  ///< as asked for, with the group filled in
  Placement placement;
  IdVector<StageId, StageProgram> stages;
  int channels = 0;  ///< channel numbers are in [0, channels)
  int messages = 0;  ///< message numbers are in [0, messages)
  /// The largest number of messages of a channel that are sent and not yet received.
  int most_queued = 0;

  /// The task of a pass through a chunk, the same on every stage.
  std::int32_t task(Pass pass, ChunkId chunk) const {
    return static_cast<std::int32_t>(pass) * shape.chunks + chunk.value();
  }
  int tasks() const { return part_count * shape.chunks; }
  /// What an entry of kind run computes.
  ChunkRun run_of(IssueEntry const& entry) const {
    return {static_cast<Pass>(entry.task / shape.chunks), entry.microbatch,
            ChunkId{entry.task % shape.chunks}};
  }
};

/// What the stages of a schedule compute in which order, without messages.
PipelineOrder order_of(PipelineSchedule const& schedule);

}  // namespace stagecraft
