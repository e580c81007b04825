#pragma once

#include <cstdint>
#include <optional>

#include "libsim/program/op.hpp"

namespace stagecraft {

/// A unit of a stage's work, described once and issued many times. Durations and memory profiles
/// are indexed by its position in StagePlan::tasks.
struct Task {
  enum class Kind : std::uint8_t {
    forward,
    backward,
    step,
    input_gradient,
    weight_gradient,
    recompute,
  };
  Kind kind = Kind::forward;
  Stream stream = Stream::compute;
  /// The group, if several stages take part: the task starts when the last of them has arrived.
  /// Ranks of one stage behave alike, so groups within a stage are not named here.
  std::optional<GroupId> group;
  /// Of a group of several stages: waits only for the stages before this one.
  bool is_prefix = false;
  /// Step: validates a step that was taken ahead, while the next iteration warms up.
  bool is_validation = false;
  bool is_stored = false;        ///< passes: runs the program that stores all activations
  bool is_early = false;         ///< passes: runs the program whose recompute is a pass of its own
  ChunkId chunk{};               ///< passes: chunk of the stage
  std::int32_t program = 0;      ///< passes: index into Programs::chunks
  std::int32_t first_block = 0;  ///< with program: blocks [first_block, first_block + block_count)
  std::int32_t block_count = 0;
  std::int32_t op = 0;  ///< step: index into the stage's step program
  /// Passes: the task of the stage that began before it and runs beside it, so that each hides some
  /// of the other's exchanges; -1: none.
  std::int32_t beside = -1;

  friend bool operator==(Task const&, Task const&) = default;
};

/// The pass through blocks that a task is a part or all of. Pre: it is not a task of the step.
constexpr Pass pass_of(Task const& task) {
  switch (task.kind) {
    case Task::Kind::backward:
      return Pass::backward;
    case Task::Kind::input_gradient:
      return Pass::input_gradient;
    case Task::Kind::weight_gradient:
      return Pass::weight_gradient;
    case Task::Kind::recompute:
      return Pass::recompute;
    case Task::Kind::forward:
    case Task::Kind::step:
      break;
  }
  return Pass::forward;
}

/// Whether the task makes the gradient of its chunk's input. A backward does so at the first block.
constexpr bool ends_gradient(Task const& task) {
  bool const is_gradient =
      task.kind == Task::Kind::backward || task.kind == Task::Kind::input_gradient;
  return is_gradient && task.first_block == 0;
}

/// Whether the microbatch leaves the chunk with the task, so that none of its tensors is kept.
constexpr bool ends_in_flight(Task const& task) {
  bool const is_last =
      task.kind == Task::Kind::backward || task.kind == Task::Kind::weight_gradient;
  return is_last && task.first_block == 0;
}

/// One message between two consecutive virtual stages (Placement), as one of its two ends sees it:
/// an activation goes to the next virtual stage, a gradient to the one before. The messages of a
/// channel go from one stage to one other stage, and both ends exchange them in the same order.
struct Transfer {
  enum class Payload : std::uint8_t { activation, gradient };
  enum class End : std::uint8_t { send, receive };
  Payload payload = Payload::activation;
  End end = End::send;
  StageId peer{};  ///< stage at the other end
  MicrobatchId microbatch{};
  ChunkId chunk{};  ///< chunk of this end's stage that made it (send) or reads it (receive)
  std::int32_t message = 0;  ///< the same at both ends; dense from 0, unique in the iteration
  std::int32_t channel = 0;  ///< dense from 0; one per payload and pair of virtual stages

  friend bool operator==(Transfer const&, Transfer const&) = default;
};

/// One entry of a stage's issue order.
struct IssueEntry {
  enum class Kind : std::uint8_t {
    run,     ///< issues tasks[task] on its stream; a task of the compute stream blocks that stream
    post,    ///< starts transfers [first, first + count) of the stage together
    wait,    ///< the compute stream waits until transfers [first, first + count) are over
    drain,   ///< the compute stream waits until the data-parallel stream is idle
    repeat,  ///< the `count` entries before it run `times` times in all; see StageProgram
  };
  Kind kind = Kind::run;
  std::int32_t task = 0;
  MicrobatchId microbatch{};  ///< run: the task's microbatch; no_microbatch if it has none
  bool is_paired = false;     ///< run: the task of the next entry runs beside it
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t times = 1;
  /// repeat: the number by which the microbatches of the repeated entries advance each time.
  std::int32_t advance = 0;

  friend bool operator==(IssueEntry const&, IssueEntry const&) = default;
};

}  // namespace stagecraft
