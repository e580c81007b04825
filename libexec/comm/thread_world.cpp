#include "libexec/comm/thread_world.hpp"

namespace stagecraft {
class ThreadWorld::RankCommunicator : public Communicator {
 public:
  RankCommunicator(ThreadWorld& world, RankId rank) : world_{world}, rank_{rank} {
    for (GroupId const group : world.ranks_.ids()) {
      auto const own = world.ranks_.membership(group, rank);
      if (!own) continue;
      memberships_.emplace(group, Membership{world.groups_.at({group, own->members.front()}).get(),
                                             static_cast<std::size_t>(own->member)});
    }
    RankId const first = world.ranks_.at_stage(rank, StageId{0});
    mailboxes_ = world.mailboxes_[first.index()].get();
  }

  Ticket start(Collective const& collective) override {
    Membership const& membership = memberships_.at(collective.group);
    return membership.group->start(membership.member, collective);
  }
  TimeSpan finish(GroupId group, Ticket ticket) override {
    Membership const& membership = memberships_.at(group);
    return membership.group->finish(membership.member, ticket);
  }
  void post(Message const& message) override { mailboxes_->post(message); }
  TimeSpan wait(Message const& message) override { return mailboxes_->wait(message); }
  void barrier() override {
    ThreadGroup& everyone = world_.everyone_;
    everyone.finish(rank_.index(), everyone.start(rank_.index(), {}));
  }
  void fail(std::exception_ptr const& error) override {
    try {
      std::rethrow_exception(error);
    } catch (std::exception const& problem) {
      world_.health_.fail(rank_, problem.what());
    }
    for (auto const& [group, membership] : memberships_) membership.group->wait_until_quiet();
    mailboxes_->wait_until_quiet();
  }

 private:
  struct Membership {
    ThreadGroup* group = nullptr;
    std::size_t member = 0;
  };
  ThreadWorld& world_;
  RankId rank_;
  std::map<GroupId, Membership> memberships_;
  ThreadMailboxes* mailboxes_ = nullptr;
};

ThreadWorld::ThreadWorld(TrainingPlan const& plan,
                         LocalTransport& transport,
                         JobClock const& clock,
                         JobHealth& health)
    : ranks_{plan.groups},
      health_{health},
      everyone_{static_cast<std::size_t>(ranks_.ranks()), nothing_, clock, health} {
  for (RankId const rank : ranks_.rank_ids()) {
    for (GroupId const group : ranks_.ids()) {
      auto const own = ranks_.membership(group, rank);
      if (!own || own->member > 0) continue;
      groups_[{group, rank}] =
          std::make_unique<ThreadGroup>(own->members.size(), transport, clock, health);
    }
  }
  bool const buffers_sends = plan.config.schedule.p2p == P2p::overlapped;
  for (int i = 0; i < ranks_.ranks_per_stage(); ++i) {
    mailboxes_.push_back(std::make_unique<ThreadMailboxes>(
        static_cast<std::size_t>(plan.messages), buffers_sends, transport, clock, health));
  }
}

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::communicator(RankId rank) {
  return std::make_unique<RankCommunicator>(*this, rank);
}

}  // namespace stagecraft
