#pragma once

#include <cstdint>
#include <optional>

#include "libsim/model/op.hpp"

namespace stagecraft {

/// A distinct thing that a rank does, described once and issued many times; engines index their
/// durations and memory profiles by its position in StagePlan::tasks.
struct Task {
  enum class Kind : std::uint8_t { forward, backward, step };
  Kind kind = Kind::forward;
  Stream stream = Stream::compute;
  /// If stages take part together: in which group. The work starts when the last has arrived. Ranks
  /// of one stage behave alike, so that groups of them have no entry here.
  std::optional<GroupId> group;
  std::int32_t chunk = 0;  ///< forward, backward: chunk of the stage
  /// forward, backward: index into TrainingPlan::chunks. Gradient reductions: whose gradients, or
  /// GradientBucket::all_chunks.
  std::int32_t program = 0;
  std::int32_t first_block = 0;  ///< with program: blocks [first_block, first_block + block_count)
  std::int32_t block_count = 0;
  std::int32_t op = 0;  ///< step: index into the rank's step program
};

/// Whether a chunk's backward of a microbatch is over with this task: it ends at the first block.
constexpr bool ends_backward(Task const& task) {
  return task.kind == Task::Kind::backward && task.first_block == 0;
}

/// One entry of a rank's issue order.
struct IssueEntry {
  enum class Kind : std::uint8_t {
    run,  ///< issue tasks[task] on its stream; the compute stream goes on once its own task is done
    post,   ///< start transfers [first, first + count) of the rank together
    wait,   ///< the compute stream waits until transfers [first, first + count) are over
    drain,  ///< the compute stream waits until the data-parallel stream is idle
  };
  Kind kind = Kind::run;
  std::int32_t task = 0;
  std::int32_t microbatch = 0;  ///< of the replica; -1 where it does not apply
  std::int32_t first = 0;
  std::int32_t count = 0;
};

}  // namespace stagecraft
