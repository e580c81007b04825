#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libsim/memory/message_buffers.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/schedule/program_reader.hpp"

namespace stagecraft {

/// A change of a buffer, described once for all microbatches. Pointers lead into the plan.
struct BufferChange {
  enum class Kind : std::uint8_t {
    allocate,
    /// The next owner takes over the buffer: the next block, as its own tensor, or a message.
    hand_over,
    release,
    run,   ///< not a change: the op runs, between what is allocated and released around it
    lend,  ///< a collective uses the buffer
  };
  Kind kind = Kind::allocate;
  Category category = Category::activations;                  ///< in which the bytes are counted
  Transfer::Payload payload = Transfer::Payload::activation;  ///< messages only
  TensorId tensor = no_tensor;                                ///< number in `block`
  std::int32_t chunk = -1;                                    ///< chunk of the stage; -1: resident
  std::int64_t bytes = 0;
  BlockProgram const* block = nullptr;  ///< owner of the tensor; null: a message, or resident
  Op const* op = nullptr;  ///< the op before which it is allocated or after which it is released
  std::int64_t first_layer = -1;  ///< the block's first layer in the model; -1: it has none
  std::int32_t run = -1;          ///< of kind run: its number, from 0, over all tasks of the stage

  /// Whether the buffer has parameters, gradients or optimizer state, which exist before the first
  /// entry and are never released.
  bool is_resident() const { return chunk < 0; }
  bool is_message() const { return block == nullptr && !is_resident(); }
  /// The layer of the model that the tensor, or the op, belongs to; -1 outside of layers.
  std::int64_t layer_of_tensor() const;
  std::int64_t layer_of_op() const;
  /// For example core_attention.softmax_output, message.gradient, optimizer; for kind run, the op's
  /// name.
  std::string name() const;
};

/// A change of one buffer for one microbatch.
struct BufferEvent {
  BufferChange const* change = nullptr;  ///< never null
  std::int64_t buffer = 0;               ///< buffers are numbered from 0 in the order of allocation
  MicrobatchId microbatch = no_microbatch;  ///< none: resident
};

enum class EventDetail : std::uint8_t { buffers, ops };

/// The life of all buffers of one stage through an iteration, in its issue order. Explanations and
/// allocator models are made from it. Sums (stage_memory.hpp) are made by task from the same
/// descriptions of passes and messages, PassBuffers and message_moves(). Tests check that both
/// agree.
///
/// Memory moves in issue order (libsim/program/block_program.hpp,
/// libsim/memory/message_buffers.hpp), so that events need neither costs nor a system. Each task's
/// events are made once; a run of the task only adds numbers, at a few nanoseconds per event.
///
/// With EventDetail::ops, the events also say when each op runs, so that a reader can add what a
/// framework allocates around the op.
///
///     BufferEvents events{plan, stage};
///     while (events.next()) {
///       for (BufferEvent const& event : events.now()) allocator.take(event);
///     }
class BufferEvents {
 public:
  /// The buffer that an event of a task concerns: a number that another event has recorded, plus an
  /// offset.
  struct Reference {
    enum class From : std::uint8_t {
      task,            ///< the first buffer that this run of the task allocates
      forward,         ///< the first that the forward of the same chunk and microbatch allocated
      recompute,       ///< the first that their recompute ahead of the backward allocated
      input_gradient,  ///< the first that their input gradient allocated
      activation,      ///< the input of the chunk's forward, received or handed over
      gradient,        ///< the input of its backward, received or left by the task before
      output,          ///< the output that its forward has sent
      slot,            ///< what a task of an earlier microbatch has left (Handover)
    };
    From from = From::task;
    /// task, forward, recompute, input_gradient: the number of buffers allocated before this one;
    /// slot: its number
    std::int32_t offset = 0;
  };
  struct TaskEvent {
    BufferChange change;
    Reference buffer;
  };

  explicit BufferEvents(StageRank const& rank, EventDetail detail = EventDetail::buffers);
  BufferEvents(BufferEvents const&) = delete;  // events point into it
  BufferEvents(BufferEvents&&) = delete;
  BufferEvents& operator=(BufferEvents const&) = delete;
  BufferEvents& operator=(BufferEvents&&) = delete;
  ~BufferEvents() = default;

  /// Advances: first to the resident buffers, then from entry to entry of the issue order. Returns
  /// false at the end.
  bool next();
  /// Returns to the state after construction, so that another iteration can be replayed without
  /// describing the tasks again.
  void restart();
  /// The current entry of the issue order; -1 for the resident buffers.
  std::int32_t entry() const { return is_resident_ ? -1 : reader_.number(); }
  /// The task that the entry runs; null if it does not run one.
  Task const* task() const;
  MicrobatchId microbatch() const;
  /// The events of the current entry. The span is valid until next() is called; pointers in the
  /// events are valid as long as this object.
  std::span<BufferEvent const> now();
  /// The changes that a task of the stage makes whenever it runs, by the task's index: now() of
  /// each such entry, without the numbers of buffers.
  std::span<TaskEvent const> events_of(std::size_t task) const { return compiled_[task].events; }
  /// The number of the buffer that an event of the current entry concerns. Pre: the entry runs a
  /// task.
  std::int64_t number_of(Reference const& buffer) const {
    if (buffer.from == Reference::From::slot)
      return slots_[static_cast<std::size_t>(buffer.offset)];
    return first_[static_cast<std::size_t>(buffer.from)] + buffer.offset;
  }
  /// The number of buffers that have been allocated, those of the current entry included.
  std::int64_t buffers() const { return buffers_; }

  /// At the end of the iteration: the buffers that stay until the next one begins, and others that
  /// are gone.
  std::span<std::int64_t const> left_over() const { return slots_; }

  /// See ProgramReader. Later buffers are numbered as if the skipped entries did not exist.
  std::int32_t repeats_left() const { return reader_.repeats_left(); }
  void skip_repeats(std::int32_t times);

 private:
  /// The events of a task in issue order.
  struct CompiledTask {
    std::vector<TaskEvent> events;
    std::int32_t allocations = 0;
    std::vector<std::pair<std::int32_t, Reference>> left;  ///< what is in slots afterwards
    Reference passed;           ///< what the last block leaves to the next task
    bool sends_output = false;  ///< the task ends its pass, and the chunk has a neighbour
    /// The chunk of the same stage to which the task leaves its output instead; -1: none.
    std::optional<ChunkId> next_chunk;
  };
  /// The buffers of a chunk's tensors, by position of the block and by tensor.
  using ChunkReferences = std::vector<std::vector<Reference>>;
  /// The buffers that later tasks of a microbatch in a chunk refer to.
  struct InFlight {
    std::int64_t forward = 0;
    std::int64_t recompute = 0;
    std::int64_t input_gradient = 0;
    std::array<std::int64_t, 2> received{};  ///< by payload
    std::array<std::int64_t, 2> sent{};      ///< by payload
  };
  class TaskCompiler;

  InFlight& in_flight(ChunkId chunk, MicrobatchId microbatch) {
    std::size_t const place = (microbatch + -skipped_).index() * chunks_ + chunk.index();
    if (place >= in_flight_.size()) in_flight_.resize(2 * place + chunks_);
    return in_flight_[place];
  }
  void run(Task const& task, CompiledTask const& compiled, MicrobatchId microbatch);
  void exchange(IssueEntry::Kind kind, Transfer const& transfer);
  BufferChange const& message_change(Transfer const& transfer, MessageMove const& move) const;

  TrainingPlan const& plan_;
  StagePlan const& stage_;
  ProgramReader reader_;
  std::size_t chunks_;
  std::vector<CompiledTask> compiled_;     ///< by index into StagePlan::tasks
  std::vector<BufferChange> resident_;     ///< buffers of StagePlan::state
  std::vector<BufferChange> of_messages_;  ///< by chunk, payload, buffer, and whether it allocates
  /// The buffers in flight of each microbatch and chunk, up to the last microbatch that has begun.
  std::vector<InFlight> in_flight_;
  std::vector<std::int64_t>
      slots_;                 ///< buffers that tasks have left to those of other microbatches
  std::int64_t buffers_ = 0;  ///< allocated so far
  std::int32_t skipped_ = 0;  ///< microbatches that were skipped
  bool is_resident_ = false;  ///< whether it is at the resident buffers
  bool has_begun_ = false;
  /// Buffer numbers for the current entry, by Reference::From.
  std::array<std::int64_t, 7> first_{};
  std::span<TaskEvent const> to_number_;  ///< events of the current entry that are not yet in now_
  std::vector<BufferEvent> now_;
};

}  // namespace stagecraft
