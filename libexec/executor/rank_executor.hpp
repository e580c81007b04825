#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libexec/executor/block_runner.hpp"
#include "libexec/executor/parameter_store.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libexec/executor/step_runner.hpp"

namespace stagecraft {

/// Runs the issue order of one rank, an iteration at a time.
class RankExecutor {
 public:
  /// Allocates parameters and optimizer state; parameters get their first values.
  explicit RankExecutor(RankContext const& context);

  /// One iteration. \throws MemoryLimitError, PeerFailure
  void run_iteration();

  /// Sum of the losses of all tokens by microbatch of this replica; empty but on the last stage.
  std::map<std::int64_t, double> const& losses() { return blocks_.losses(); }
  double gradient_norm() const { return steps_.gradient_norm(); }
  bool was_skipped() const { return steps_.was_skipped(); }
  ParameterStore& parameters() { return parameters_; }
  /// What runs now, for the message of an error: "backward of microbatch 3, chunk 0".
  std::string position() const;

 private:
  /// The passes of one microbatch through one chunk program.
  struct ChunkInstance {
    std::vector<BlockInstance> blocks;
    Buffer gradient;  ///< between two parts of a backward
  };
  /// A tensor on its way into or out of a chunk.
  struct MessageKey {
    Transfer::Payload payload;
    std::int64_t microbatch;
    std::int64_t chunk;
    auto operator<=>(MessageKey const&) const = default;
  };

  void run(IssueEntry const& step);
  void run_chunk(Task const& task, std::int64_t microbatch);
  void run_forward(Task const& task, std::int64_t microbatch);
  void run_backward(Task const& task, std::int64_t microbatch);
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
  std::map<std::pair<std::int32_t, std::int64_t>, ChunkInstance> instances_;
  std::map<MessageKey, Buffer> inbox_;        ///< received, or being received
  std::map<MessageKey, Buffer> outbox_;       ///< to be sent, being sent, or sent and kept
  std::map<std::int32_t, std::size_t> rows_;  ///< of the trace, by transfer under way
  std::array<SimTime, 2> sending_until_{};    ///< by payload; buffered sends leave one by one
  IssueEntry const* current_ = nullptr;
};

}  // namespace stagecraft
