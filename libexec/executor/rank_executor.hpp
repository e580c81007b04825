#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libexec/executor/block_runner.hpp"
#include "libexec/executor/parameter_store.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libexec/executor/step_runner.hpp"

namespace stagecraft {

/// Runs the issue order of one rank, one iteration per call.
///
/// This folder executes a plan: a job (job.hpp) starts the ranks, as threads or processes or one of
/// them alone, run_rank() runs one of them to its end, RankExecutor runs the issue entries of an
/// iteration, BlockRunner the ops of a block.
class RankExecutor {
 public:
  /// Allocates parameters and optimizer state, and sets the parameters' initial values.
  explicit RankExecutor(RankContext const& context);

  /// Discards what is left of the iteration before, such as gradients of units.
  void begin_iteration();
  /// Runs one iteration. Pre: it has begun. \throws MemoryLimitError, PeerFailure
  void run_iteration();

  /// The sum of all tokens' losses, by microbatch of this replica; empty except on the last stage.
  std::map<MicrobatchId, double> const& losses() { return blocks_.losses(); }
  /// The other losses that are trained, those of further tokens and of routers; see BlockRunner.
  std::vector<double> const& prediction_losses() { return blocks_.prediction_losses(); }
  std::vector<double> const& router_losses() { return blocks_.router_losses(); }
  double gradient_norm() const { return steps_.gradient_norm(); }
  bool was_skipped() const { return steps_.was_skipped(); }
  ParameterStore& parameters() { return parameters_; }
  /// The current task, for error messages: "backward of microbatch 3, chunk 0".
  std::string position() const;

 private:
  /// The passes of one microbatch through one chunk program.
  struct ChunkInstance {
    std::vector<BlockInstance> blocks;
    Buffer gradient;  ///< between two blocks of a backward or an input gradient
  };
  /// Identifies the input or output of a chunk that a message carries.
  struct MessageKey {
    Transfer::Payload payload;
    MicrobatchId microbatch;
    ChunkId chunk;
    auto operator<=>(MessageKey const&) const = default;
  };

  /// Identifies a buffer that a block has left to another; see Handover.
  struct HandoverKey {
    ChunkId chunk;
    std::string_view what;
    std::int32_t position;  ///< of the buffer's owner
    auto operator<=>(HandoverKey const&) const = default;
  };

  void run(IssueEntry const& step);
  void run_chunk(Task const& task, MicrobatchId microbatch);
  void run_forward(Task const& task, MicrobatchId microbatch);
  /// A backward, or one of its halves.
  void run_gradients(Task const& task, MicrobatchId microbatch);
  /// Gives a block what others have left to it, before a pass of it; and takes what it leaves.
  void take_handed(BlockInstance& block, Pass pass);
  void leave_handed(BlockInstance& block, Pass pass);
  static HandoverKey key_of(BlockInstance const& block, Handover const& handover);
  /// What the chunk's first or last block receives from a neighbour.
  Buffer take_received(Transfer::Payload payload, MicrobatchId microbatch, ChunkId chunk);
  /// Gives a chunk's output to the next chunk of the stage, or to who sends it.
  void hand_on(Transfer::Payload payload,
               ChunkProgram const& chunk,
               MicrobatchId microbatch,
               Buffer buffer);
  /// Releases an output that was kept after it had been sent.
  void release_output(MessageKey const& key);
  void post(Transfer const& transfer);
  void wait(Transfer const& transfer, std::size_t row);
  void gather_message(Buffer const& piece, Buffer const& whole);
  Buffer allocate_message(MessageKey const& key, bool is_piece);
  Message message_of(Transfer const& transfer) const;

  RankContext const& context_;
  IssueOrder order_;
  ParameterStore parameters_;
  BlockRunner blocks_;
  StepRunner steps_;
  std::map<std::pair<std::int32_t, MicrobatchId>, ChunkInstance> instances_;
  std::map<HandoverKey, Buffer> handed_;      ///< shards of gradients until the next iteration
  std::map<MessageKey, Buffer> inbox_;        ///< received, or being received
  std::map<MessageKey, Buffer> outbox_;       ///< to be sent, being sent, or sent and kept
  std::map<MessageKey, Message> open_sends_;  ///< posted, and not waited for
  /// Sends that were over before the plan waits for them.
  std::map<MessageKey, TimeSpan> early_ends_;
  std::map<std::int32_t, std::size_t> rows_;  ///< rows of the trace, by transfer in flight
  std::array<SimTime, 2> sending_until_{};    ///< by payload; buffered sends leave one by one
  IssueEntry const* current_ = nullptr;
};

}  // namespace stagecraft
