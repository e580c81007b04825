#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/training_plan.hpp"
#include "tests/libsim/engine/buffer_heap.hpp"

namespace stagecraft {

/// A message between two stages, which both of them see.
struct ReplayedMessage {
  std::optional<SimTime> sent, received;  ///< posts
  std::optional<SimTime> start, end;
};

/// The sends and receives of one stage, and the buffers that wait for them or came with them.
class ReplayedMessages {
 public:
  /// What a stage hands over or is handed: of which chunk and microbatch.
  using Key = std::tuple<Transfer::Payload, ChunkId, MicrobatchId>;

  /// `shared`: by message of the plan. All references must outlive this.
  ReplayedMessages(TrainingPlan const& plan,
                   CostModel const& cost,
                   std::vector<ReplayedMessage>& shared,
                   StageId stage,
                   std::vector<Transfer> const& transfers,
                   BufferHeap& heap)
      : plan_{plan},
        cost_{cost},
        shared_{shared},
        stage_{stage},
        transfers_{transfers},
        heap_{heap} {}

  /// Takes a `post` entry at `now`.
  void post(IssueEntry const& entry, SimTime now);
  /// When a `wait` entry that begins at `now` is over; nullopt if another stage has yet to post.
  std::optional<SimTime> wait(IssueEntry const& entry, SimTime now);

  /// What has been received for a chunk, if its input came from another stage.
  std::optional<BufferHeap::Id> arrived(Key const& key) const;
  void hand_over(Key const& key, BufferHeap::Id buffer) { outgoing_[key] = buffer; }
  BufferHeap::Id handed_over(Key const& key) const { return outgoing_.at(key); }

 private:
  Transfer const& transfer(std::int32_t index) const {
    return transfers_[static_cast<std::size_t>(index)];
  }
  ReplayedMessage& message(Transfer const& transfer) const {
    return shared_[static_cast<std::size_t>(transfer.message)];
  }
  bool is_blocking() const { return plan_.config.schedule.p2p == P2p::blocking; }
  MessageCost cost_of(Transfer const& transfer) const;
  void post(Transfer const& transfer, SimTime now);
  void end(Transfer const& transfer, SimTime now);

  TrainingPlan const& plan_;
  CostModel const& cost_;
  std::vector<ReplayedMessage>& shared_;
  StageId stage_;
  std::vector<Transfer> const& transfers_;
  BufferHeap& heap_;
  std::map<Transfer::Payload, SimTime> send_idle_;
  std::map<std::int32_t, BufferHeap::Id> receiving_;  ///< by message
  std::map<Key, BufferHeap::Id> incoming_;
  std::map<Key, BufferHeap::Id> outgoing_;
};

}  // namespace stagecraft
