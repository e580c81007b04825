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
/// Each block is in one of the lists below and is freed when the comment of its list says;
/// end_iteration() frees all that belongs to passes.
class FrameworkBuffers {
 public:
  /// All must outlive the object.
  FrameworkBuffers(FrameworkMemory const& framework,
                   TrainingPlan const& plan,
                   StagePlan const& stage,
                   TrackedAllocator& allocator);

  /// What exists from the start, given the elements of each parameter.
  bool allocate_resident(std::span<std::int64_t const> parameters);
  /// Before the first task of an iteration.
  void begin_iteration();
  /// Before a task runs.
  bool begin(Task const& task);
  /// An event of kind `run`.
  bool run(BufferEvent const& event);
  /// Whether a buffer that is never freed takes the place of this one.
  bool replaces(BufferChange const& change) const;
  bool allocate_instead(BufferChange const& change);
  /// After a task has run for a microbatch.
  void end(Task const& task, MicrobatchId microbatch);
  /// Before the optimizer step, given the elements of each of its gradients.
  bool begin_step(std::span<std::int64_t const> shards);
  /// During the optimizer step.
  bool step(std::span<std::int64_t const> shards);
  /// Frees all that an interrupted iteration still has.
  void end_iteration();

 private:
  using Blocks = std::vector<BlockId>;
  /// What an op has beside its tensors; derived once.
  struct OpBuffers {
    std::int64_t temporary = 0;
    std::int64_t held = 0;
    std::int64_t kept = 0;
    std::int64_t global = 0;              ///< of the global buffer
    std::vector<std::int64_t> gradients;  ///< of the pass
    bool ends_kept = false;               ///< it reads what was kept last
    bool has_any = false;                 ///< of all of the above
    bool is_launched = false;
    bool is_known = false;
  };

  struct Growing {
    BlockId block = no_block;
    std::int64_t bytes = 0;
  };

  bool receives(Task const& task) const;
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
  std::map<OpKind, OpKind> kept_until_;  ///< the op of the backward pass that reads what is kept
  std::vector<OpBuffers> of_ops_;        ///< by BufferChange::run
  std::vector<Blocks> kept_;             ///< by chunk and microbatch
  Blocks held_;                          ///< until the pass ends
  Blocks gradients_;                     ///< of the pass
  Blocks widened_;                       ///< gradients, until the next iteration
  std::array<Growing, 2> gathered_;      ///< activations, and gradients of row-parallel layers
  Growing global_;
  std::array<bool, 2> has_workspace_{};  ///< by pass
  std::int64_t op_time_;                 ///< that an op's kernels take
  double launched_ = 0;                  ///< kernels since the host has last waited
  double lead_ = -1;                     ///< of the host, in kernels, as the allocator knows it
  int iterations_ = 0;                   ///< that have begun
  int forwards_sent_ = 0;                ///< in the first iteration
  bool stands_still_ = false;            ///< the accelerator, until the host waits
};

}  // namespace stagecraft
