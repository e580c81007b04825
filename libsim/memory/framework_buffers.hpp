#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/framework_memory.hpp"
#include "libsim/memory/tracked_allocator.hpp"
#include "libsim/schedule/orders/placement.hpp"

namespace stagecraft {

/// Allocates what a framework needs beside the op program while a stage's events are replayed. A
/// member function that allocates returns false if the device has no memory left.
///
/// The allocator is the caller's; the object owns the blocks that it has allocated there. Between
/// two calls each of them is in one of the lists below, and it is freed when the comment of its
/// list says. end_iteration() frees all that belongs to passes.
class FrameworkBuffers {
 public:
  /// All must outlive the object.
  FrameworkBuffers(FrameworkMemory const& framework,
                   TrainingPlan const& plan,
                   StagePlan const& stage,
                   TrackedAllocator& allocator);

  /// Allocates what exists from the start, given the elements of each parameter.
  bool allocate_resident(std::span<std::int64_t const> parameters);
  /// To be called before the first task of an iteration.
  void begin_iteration();
  /// To be called before a task runs.
  bool begin(Task const& task);
  /// To be called for an event of kind `run`.
  bool run(BufferEvent const& event);
  /// Whether a buffer that is never freed takes the place of this one.
  bool replaces(BufferChange const& change) const;
  bool allocate_instead(BufferChange const& change);
  /// To be called after a task has run for a microbatch.
  void end(Task const& task, MicrobatchId microbatch);
  /// To be called before the optimizer step, given the elements of each of its gradients.
  bool begin_step(std::span<std::int64_t const> shards);
  /// To be called during the optimizer step.
  bool step(std::span<std::int64_t const> shards);
  /// Frees all that an interrupted iteration still has, and allocates what exists until the next.
  bool end_iteration();

 private:
  using Blocks = std::vector<BlockId>;
  /// The buffers that an op has beside its tensors; derived once.
  struct OpBuffers {
    std::int64_t temporary = 0;           ///< bytes that are freed at once
    std::int64_t held = 0;                ///< bytes that are freed after the task
    std::int64_t kept = 0;                ///< bytes that are freed by the op of the backward
    std::int64_t global = 0;              ///< bytes that the global buffer needs
    std::vector<std::int64_t> gradients;  ///< bytes of each gradient tensor
    bool ends_kept = false;               ///< whether it reads, and frees, what was kept last
    bool has_any = false;                 ///< whether the op needs any of the above
    bool is_grouped = false;              ///< whether it is a product of experts in groups
    bool is_launched = false;             ///< whether the host launches kernels for it
    bool is_known = false;                ///< whether the fields are derived
  };

  struct Growing {
    BlockId block = no_block;
    std::int64_t bytes = 0;
  };

  bool receives(Task const& task) const;
  bool keep_inputs();
  bool keep_root();
  bool update(std::span<std::int64_t const> shards);
  bool gather(std::span<std::int64_t const> shards);
  bool is_elsewhere(ChunkProgram const& chunk, Neighbour side) const;
  bool ends_forward(Task const& task) const;
  bool sends(Task const& task) const;
  void end_of_sending(Task const& task);
  void wait_on_host();
  OpBuffers const& buffers_of(BufferChange const& change);
  void launch();
  bool grow(Growing& buffer, std::int64_t bytes);
  bool allocate_into(Blocks& blocks, std::int64_t bytes);
  void free_all(Blocks& blocks);
  Blocks& kept(ChunkId chunk, MicrobatchId microbatch);
  bool keeps(BufferChange const& change) const;
  bool uses_global(Op const& op) const;
  bool has_gradient_tensor(Op const& op) const;

  FrameworkMemory const& framework_;
  TrainingPlan const& plan_;
  StagePlan const& stage_;
  TrackedAllocator& allocator_;
  std::map<OpKind, OpKind> kept_until_;  ///< by the op that reads it, the op that keeps something
  std::vector<OpBuffers> of_ops_;        ///< by BufferChange::run
  std::vector<Blocks> kept_;             ///< by chunk and microbatch; freed with their last task
  Blocks held_;                          ///< freed after each task
  Blocks gradients_;                     ///< freed after the op; if separate, with kept_
  std::vector<Blocks> inputs_;           ///< by chunk; freed with its next forward
  Blocks widened_;                       ///< gradients as fp32, freed before the next iteration
  Blocks root_;                          ///< of sharded units, freed before the next iteration
  std::array<Growing, 2> gathered_;      ///< activations, and gradients of row-parallel layers
  Growing global_;                       ///< never freed, as gathered_
  std::array<bool, 2> has_workspace_{};  ///< forward; all other passes
  bool has_grouped_workspace_ = false;
  std::int64_t op_time_;       ///< duration of an op's kernels on the allocator's clock
  double launched_ = 0;        ///< kernels launched since the host last waited
  double lead_ = -1;           ///< kernels by which the host is ahead, as last told to
                               ///< the allocator; -1: not told yet
  int iterations_ = 0;         ///< iterations that have begun
  int forwards_sent_ = 0;      ///< forwards whose output was sent in the first iteration
  bool stands_still_ = false;  ///< whether the accelerator does, until the host waits
};

}  // namespace stagecraft
