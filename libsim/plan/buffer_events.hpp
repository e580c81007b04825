#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libsim/plan/message_buffers.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What happens to a buffer, told once for all microbatches. Pointers lead into the plan.
struct BufferChange {
  enum class Kind : std::uint8_t {
    allocate,
    /// A neighbour takes the buffer over: the next block as its own tensor, or a message.
    hand_over,
    release,
  };
  Kind kind = Kind::allocate;
  Category category = Category::activations;                  ///< as which the bytes are counted
  Transfer::Payload payload = Transfer::Payload::activation;  ///< messages only
  TensorId tensor = no_tensor;                                ///< of `block`
  std::int32_t chunk = -1;                                    ///< of the stage; -1: resident
  std::int64_t bytes = 0;
  BlockProgram const* block = nullptr;  ///< whose tensor it is; null: a message, or resident
  Op const* op = nullptr;  ///< before which it is allocated or after which it is released, if any
  std::int64_t first_layer = -1;  ///< number in the model of the block's first; -1: has none

  /// Parameters, gradients and optimizer state: there before the first entry, and never released.
  bool is_resident() const { return chunk < 0; }
  bool is_message() const { return block == nullptr && !is_resident(); }
  /// Numbers in the model of the layers that tensor and op belong to; -1 outside of layers.
  std::int64_t layer_of_tensor() const;
  std::int64_t layer_of_op() const;
  /// E.g. core_attention.softmax_output, message.gradient, optimizer.
  std::string name() const;
};

/// One thing that happens to one buffer.
struct BufferEvent {
  BufferChange const* change = nullptr;  ///< never null
  std::int64_t buffer = 0;       ///< number of the buffer, from 0 in the order of allocation
  std::int32_t microbatch = -1;  ///< -1: resident
};

/// The life of all buffers of one stage through an iteration, in its issue order: the only account
/// of a plan's memory. Sums, explanations and allocator models are made from it.
///
/// Memory moves in issue order (libsim/model/block_program.hpp, libsim/plan/message_buffers.hpp),
/// so that events need neither costs nor a system. Each task's events are made once; a run of the
/// task only adds numbers, at a few nanoseconds per event.
///
///     BufferEvents events{plan, stage};
///     while (events.next()) {
///       for (BufferEvent const& event : events.now()) allocator.take(event);
///     }
class BufferEvents {
 public:
  /// Both must outlive the object.
  BufferEvents(TrainingPlan const& plan, StagePlan const& stage);
  BufferEvents(BufferEvents const&) = delete;  // events point into it
  BufferEvents(BufferEvents&&) = delete;
  BufferEvents& operator=(BufferEvents const&) = delete;
  BufferEvents& operator=(BufferEvents&&) = delete;
  ~BufferEvents() = default;

  /// Goes on to the resident buffers first, then to one entry of the issue order after another.
  /// Returns false at the end.
  bool next();
  /// The entry that next() went to, of the issue order; -1: before the first.
  std::int32_t entry() const { return entry_; }
  /// Its events. Valid until next() is called; what they point at lives as long as this object.
  std::span<BufferEvent const> now() const { return now_; }

 private:
  /// Which buffer a task's event is of: a number that some other event has left, plus an offset.
  struct Reference {
    enum class From : std::uint8_t {
      task,        ///< the first buffer that this run of the task allocates
      forward,     ///< the first that the forward of the same chunk and microbatch has allocated
      activation,  ///< what the chunk has received, or has been handed, for its forward
      gradient,    ///< what it has received for its backward, or its backward's last piece has left
      output,      ///< what its forward has sent
    };
    From from = From::task;
    std::int32_t offset = 0;  ///< forward, task: how many buffers were allocated before
  };
  struct TaskEvent {
    BufferChange change;
    Reference buffer;
  };
  /// The events of a task in issue order.
  struct CompiledTask {
    std::vector<TaskEvent> events;
    std::int32_t allocations = 0;
    Reference passed;           ///< what its last block leaves for what comes after
    bool sends_output = false;  ///< the task is the last of its pass, and its chunk has a neighbour
  };
  /// The tensors' buffers of each block of a chunk, by position and tensor.
  using ChunkReferences = std::vector<std::vector<Reference>>;
  /// The buffers that a microbatch's pass through a chunk has to find again.
  struct InFlight {
    std::int64_t forward = 0;
    std::array<std::int64_t, 2> received{};  ///< by payload
    std::array<std::int64_t, 2> sent{};      ///< by payload
  };
  class TaskCompiler;

  InFlight& in_flight(std::int32_t chunk, std::int32_t microbatch) {
    return in_flight_[static_cast<std::size_t>(chunk) * microbatches_ +
                      static_cast<std::size_t>(microbatch)];
  }
  void run(Task const& task, CompiledTask const& compiled, std::int32_t microbatch);
  void exchange(IssueEntry::Kind kind, Transfer const& transfer);
  BufferChange const& message_change(Transfer const& transfer, MessageMove const& move) const;

  TrainingPlan const& plan_;
  StagePlan const& stage_;
  IssueOrder order_;
  std::size_t microbatches_;
  std::vector<CompiledTask> compiled_;     ///< by task of the stage
  std::vector<BufferChange> resident_;     ///< at most one per category
  std::vector<BufferChange> of_messages_;  ///< by chunk, payload, buffer, and whether it allocates
  std::vector<InFlight> in_flight_;        ///< by chunk and microbatch
  std::int64_t buffers_ = 0;               ///< allocated so far
  std::int32_t entry_ = -2;
  std::vector<BufferEvent> now_;
};

}  // namespace stagecraft
