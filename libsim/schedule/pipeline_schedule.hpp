#pragma once

#include <cstdint>

#include "libsim/schedule/orders/pipeline_order.hpp"
#include "libsim/schedule/orders/placement.hpp"
#include "libsim/schedule/schedule_shape.hpp"
#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

/// The passes that stage programs have. Recompute of a chunk belongs to its backward or input
/// gradient, unless the order has a pass of its own for it.
inline constexpr int part_count = 5;

/// The payload that a pass receives and sends. Activations go to the next virtual stage, gradients
/// to the one before. Pre: it is not a weight gradient or a recompute, which have no messages.
constexpr Transfer::Payload message_of(Pass pass) {
  return pass == Pass::forward ? Transfer::Payload::activation : Transfer::Payload::gradient;
}

/// The programs of all stages, with their messages. A task is one pass through one chunk (see
/// task()).
struct PipelineSchedule {
  ScheduleShape shape;  ///< as requested, with the group filled in
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
  /// The computation of an entry of kind run.
  ChunkRun run_of(IssueEntry const& entry) const {
    return {static_cast<Pass>(entry.task / shape.chunks), entry.microbatch,
            ChunkId{entry.task % shape.chunks}};
  }
};

/// The computations of the stages of a schedule, in order and without messages.
PipelineOrder order_of(PipelineSchedule const& schedule);

}  // namespace stagecraft
